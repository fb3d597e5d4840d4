"""Whole-graph training beside CAGNET, Plexus, PyG and DGL.

    python -m experiments.full_graph --words --json full_graph_words.json
    python -m experiments.full_graph --balance --json full_graph_balance.json
    python -m experiments.full_graph --systems --dataset amazon_computers --hidden 16 --json systems_16.json
    python -m experiments.full_graph --systems --dataset "synthetic:products?scale=0.05" --hidden 128
    python -m experiments.full_graph --accuracy --json full_graph_accuracy.json
    python -m experiments.full_graph --loading --json full_graph_loading.json
    python -m experiments.full_graph --choice --json full_graph_choice.json
    python -m experiments.full_graph --words --quick

One of these flags says what is measured; each takes ``--quick``, which needs seconds, and ``--json``:

- ``--words``: numbers that a process receives in an epoch, by the papers' formulas and by ours
  (:mod:`experiments.full_graph.words`), and the rows that METIS's parts of real graphs need of each other. Formulas
  and counts, so the same on any machine.
- ``--balance``: edges of g x g blocks of the adjacency matrix, the most over the mean, for the ids as they come, one
  random permutation, two, and ``--method deal``. Counts, too.
- ``--systems``: seconds of epochs of PyG (edge_index, CSR) and DGL over ours, in turn in one run
  (:mod:`experiments.full_graph.epochs`). The exit code is 1 where a system did not run, or computed other losses.
- ``--accuracy``: test accuracy beside the same models in full-batch PyG, ten seeds, by the papers' recipes.
- ``--loading``: what trainers read of a layout, what stays, and their private memory beside what ``--dry-run`` says
  (:mod:`experiments.full_graph.loading`), each plan in a run of its own, by 1, 2 and 4 trainers.
- ``--choice``: seconds of an epoch under every plan beside those that are predicted, and what ``--algorithm auto``
  takes by its trials (:mod:`experiments.full_graph.choice`), by 2 and 4 trainers.

``--json`` writes tables, lists of rows:

- ``--words``: ``formulas`` (a graph and a number of processes: GiB of each algorithm, ``printed`` and ``moved``, the
  best grids, ``graph_moves`` where each process holds 1/P of the edges, and ``of_1d``, ``of_plexus``: theirs as moved
  over ours), ``needed`` (rows that a product receives over those of 1D, by partition) and ``sparse`` (words of an
  epoch of a two-layer GCN over METIS's parts, and CAGNET's 1D over them).
- ``--balance``: ``blocks`` (a graph and g: ratios by permutation, ``_with_loops`` with a loop for each vertex),
  ``paper`` (Plexus, table 3, with what its table 4 gives for one permutation) and ``settings``.
- ``--systems``: ``ratios`` (a system's seconds over those of ``over``: median, least and most of the rounds, and the
  median of the quiet ones), ``losses`` of the last round, ``not_run`` with reasons, and ``settings``.
- ``--accuracy``: ``models`` (mean, standard deviation and scores of each side; ``apart``: the difference of the means
  in standard deviations of PyG's) and ``settings``.
- ``--loading``: ``runs`` (``layout_mib`` of its files; of the trainer that has most ``read_mib``, ``stays_mib`` after
  loading, ``beyond_mib`` that loading took for itself, ``peak_mib``; ``said_mib`` by ``--dry-run``;
  ``bytes_an_edge`` of A and A' over all trainers) and ``settings``.
- ``--choice``: ``graphs`` (``chosen`` by trial and ``best`` as timed; ``regret``, the first's seconds over the
  second's, and ``regret_without_trials``; ``spread``, the slowest plan's over the best's; ``rank_correlation`` of
  Spearman, predicted to measured), ``timed`` (a row a plan: ``predicted_s``, ``measured_s``, and ``tried_s`` of its
  trial) and ``settings``.
"""
