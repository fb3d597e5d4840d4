"""What a layer computes of each row by itself: products, activation and dropout."""
