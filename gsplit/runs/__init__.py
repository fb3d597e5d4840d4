"""A run on disk: its folder, checkpoints, the model that is kept, metrics."""
