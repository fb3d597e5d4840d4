"""Random faults: ``python -m experiments.faults``."""
