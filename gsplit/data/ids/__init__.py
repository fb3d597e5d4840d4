"""Ids of the user's own: names, hashes, numbers of any size, and the vertices that they are."""
