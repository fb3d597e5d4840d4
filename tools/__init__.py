"""What the repository checks itself with, beside its tests."""
