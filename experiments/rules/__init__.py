"""The sampling rules beside other ways to them.

- ``python -m experiments.rules.layerwise LAYOUT``: LADIES and FastGCN beside DGL's primitives and SciPy's products;
  splitting; with ``--error`` the error of estimates.
- ``python -m experiments.rules.subgraphs LAYOUT``: uniform subgraphs beside DGL's and PyG's.
- ``python -m experiments.rules.reach``: accuracies, and time to one, of all rules and the whole graph; with
  ``--others`` beside PyG's and DGL's own loaders.
- ``python -m experiments.rules.precisions``: accuracies in mixed precision beside float32's.
"""
