"""Graphs that lie in memory as graph stores, and temporary folders that go with the objects that need them."""
