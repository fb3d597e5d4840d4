"""Training: configuration, the loop, evaluation, checkpoints, metrics."""
