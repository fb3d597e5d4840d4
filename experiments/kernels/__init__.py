"""Kernels that a GPU is given, counted without one."""
