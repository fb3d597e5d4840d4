"""Whole-graph training beside CAGNET, Plexus, PyG and DGL.

    python -m experiments.full_graph --words --json full_graph_words.json
    python -m experiments.full_graph --balance --json full_graph_balance.json
    python -m experiments.full_graph --words --quick

One of these flags says what is measured; each takes ``--quick``, which needs seconds, and ``--json``:

- ``--words``: numbers that a process receives in an epoch, by the papers' formulas and by ours
  (:mod:`experiments.full_graph.words`), and the rows that METIS's parts of real graphs need of each other. Formulas
  and counts, so the same on any machine.
- ``--balance``: edges of g x g blocks of the adjacency matrix, the most over the mean, for the ids as they come, one
  random permutation, two, and ``--method deal``. Counts, too.

``--json`` writes tables, lists of rows:

- ``--words``: ``formulas`` (a graph and a number of processes: GiB of each algorithm, ``printed`` and ``moved``, the
  best grids, and ``of_1d``, ``of_plexus``: theirs as moved over ours), ``grids`` (Plexus and ours on every grid),
  ``needed`` (rows that a product receives over those of 1D, by partition) and ``sparse`` (words of an epoch of a
  two-layer GCN over METIS's parts, and CAGNET's 1D over them).
- ``--balance``: ``blocks`` (a graph and g: ratios by permutation, ``_with_loops`` with a loop for each vertex),
  ``paper`` (Plexus, table 3, with what its table 4 gives for one permutation) and ``settings``.
"""
