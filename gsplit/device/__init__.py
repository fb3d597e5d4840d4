"""Devices: which a run computes on, and what each kind of accelerator has."""
