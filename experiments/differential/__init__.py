"""Random models of PyG and DGL, split over trainers, beside the library's own process on the whole graph."""
