"""Our own training with one thing changed at a time, beside the same training without the change: whole epochs.

    python -m experiments.ablation --dataset "products?scale=0.25" --out work/ablation
    python -m experiments.ablation --dataset "products?scale=0.25" --studies cache batch --out work/sizes
    python -m experiments.ablation --dataset "products?scale=0.25" --studies models --hidden 128 --out work/models
    python -m experiments.ablation --dataset "products?scale=0.25" --studies optimisations --hidden 256
    python -m experiments.ablation --studies --changes order=ready "prefetch=3 slots=4" --out work/own
    python -m experiments.ablation --quick

A change is flags of ``gsplit train`` without their dashes, ``name=value`` or ``name``, with blanks between them; so
any flag can be changed. A study is a base and its changes:

- ``exchange``: rows and gradients travel as bfloat16.
- ``threads``: one trainer with the threads of all.
- ``cache``: a cache of 5, 10, 25 and 50 percent of all feature rows on each trainer; the base has none.
- ``batch``: a quarter, a half, twice and four times the batch size.
- ``models``: PyG's own GraphSAGE as it is, trained by this engine, and PyG's own computation of the same
  mini-batches: its ``SAGEConv`` on the blocks of our sampler, in one process with the threads of all trainers, not
  split. The time to sample is no part of PyG's epoch. Both have the same edges, or the experiment fails.
- ``optimisations``: what ScaleGNN's figure 5 takes apart, on three ways of training, each a study of its own: a split
  of neighbours, a split of ScaleGNN's uniform subgraphs (``--subgraph``), and the whole graph by ``1d-sparse``. The
  base has none of them: trainers sample (each the whole mini-batch), load and compute in turn, in float32. Then
  samplers that work ahead, loading ahead of computing, bfloat16 on the wire, and mixed precision, each alone, and all
  together. On the whole graph nothing is sampled or loaded ahead, and the bytes are those of its first epoch, the
  sums of features among them. Two have no switch, and are absent: activation and dropout in one pass, and sums that
  are taken while rows travel.

What runs, runs in turn as in :mod:`experiments.compare`: base and changes once a round, each round beginning with
another one; a ratio is of one round, then the median over rounds is taken; a fixed loop before each run says whether
the round was quiet. Above 1 the change takes longer than the base.

Bytes of the exchange are counters of the runs, forward and backward, over all trainers, in the first epoch. Beside
them stand the raw input rows that the first exchange would send if it sent features, counted from samples, and with
``sage`` what each layer sends according to that count. ``first_layer_over_inputs`` is given where both agree to the
byte.

``OUT`` gets ``ablation.json`` (all numbers) and ``ablation.md`` (tables); docs/formats.md has the keys, and
``python -m tools.comparison_record`` makes a record of docs/results/data out of it. The exit code is 1 where a run
failed.
"""
