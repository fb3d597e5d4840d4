"""Micro-benchmarks: one part of the system at a time, one command each."""
