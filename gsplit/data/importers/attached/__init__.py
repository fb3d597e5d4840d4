"""Files that are put to a source of edges: features, labels, vertex sets and links, matched to its vertices."""
