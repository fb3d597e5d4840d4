"""Columns of features that give labels away, and the chance that they do so by luck."""
