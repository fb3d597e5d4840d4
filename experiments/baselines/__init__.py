"""Other systems, as the experiments call them."""
