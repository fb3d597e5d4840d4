"""Faults that nobody chose: ``python -m experiments.faults``."""
