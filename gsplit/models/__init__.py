"""The models that a run may train: ours by name, those of users by class or as objects."""
