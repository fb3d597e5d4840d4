"""Experiments by kind: the paper's tables and figures, whole epochs beside other systems, micro-benchmarks, faults.

- ``paper``: what the paper shows in a table or a figure, beside its numbers.
- ``compare``: whole epochs of GSplit, DGL, PyG and others in turn.
- ``links``: what pairs of vertices make twice, send and take, beside DGL and PyG.
- ``micro``: one part of the system at a time.
- ``faults``: runs that are hurt and files that are damaged, at random.
- ``odd_numbers``: NaN, infinity and numbers near the ends of their types, in what is imported and in flags.
- ``differential``: random models of PyG and DGL, split, beside their library.
- ``model_host``: epochs predicted for hosts that are not at hand, from counts and documented rates.
- ``baselines``: other systems that ours is compared with.
- ``shared``: what all of them need: commands, flags, rounds, tables, graphs, processes.

Each command is ``python -m experiments.KIND.NAME`` or ``python -m experiments.KIND``
(:class:`experiments.shared.experiment.Experiment`); docs/results.md has what they gave.
"""

from gsplit import starting

starting.watch(__name__)
