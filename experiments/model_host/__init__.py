"""Epochs predicted for hosts that are not at hand, from counts and documented rates of devices."""
