"""Odd numbers in features, weights, labels and flags: what commands make of them, recomputed independently."""
