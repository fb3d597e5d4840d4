"""Labels beside their numbers: names of classes, sets drawn from labelled vertices, and what is odd about them."""
