"""Links: which pairs of vertices belong together, in stores and layouts."""
