"""A graph store as a source: copied, or grown by new vertices, edges, features, labels and vertex sets."""
