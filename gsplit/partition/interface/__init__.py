"""Partitioning from Python: ``gsplit.partition``."""
