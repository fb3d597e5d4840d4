"""One mini-batch on one trainer: how it comes in, what is learned from it, and exact evaluation."""
