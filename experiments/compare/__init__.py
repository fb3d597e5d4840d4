"""GSplit beside DGL and PyG themselves, and beside PaGraph's and Quiver's strategies on our engine: whole epochs.

    python -m experiments.compare --dataset "products?scale=0.25" --gpus 2 --hidden 16 --out work/products-16
    python -m experiments.compare --dataset "products?scale=0.25" --gpus 2 --hidden 128 --out work/products-128
    python -m experiments.compare --dataset "amazon?scale=0.1" --gpus 2 --hidden 16 --out work/amazon-16
    python -m experiments.compare --dataset "amazon?scale=0.1" --gpus 2 --hidden 128 --out work/amazon-128
    python -m experiments.compare --dataset "products?scale=0.25" --model gat --hidden 64 --heads 4 --out work/gat
    python -m experiments.compare --dataset amazon_computers --batch-size 1024 --epochs 9 --out work/computers
    python -m experiments.compare --dataset "products?scale=0.25" --systems gsplit,pagraph,quiver \
        --sweep-cache 0,5,10,25 --out work/by-cache
    python -m experiments.compare --dataset "products?scale=0.25" --sweep-batch 1024,4096,16384 --out work/by-batch
    python -m experiments.compare --quick

By default fan-out 15,10,5 and batch size 4096. Trainers are processes on the CPU. ``--quick`` takes a minute or two
on a tiny graph, to see whether all works; its figures say nothing.

Systems, each a process group of its own, on the same graph store, with the same training vertices, widths, fan-out,
number of targets of a mini-batch over all trainers, learning rate, dropout, rule of initial weights and threads:

- ``gsplit``: ``gsplit train`` by split parallelism, on a layout with a part a trainer.
- ``dgl``: DGL 1.1.3 as its multi-GPU example has it (:mod:`experiments.baselines.dgl_training`).
- ``pyg``: PyG as its example of distributed sampling has it; where its loader has nothing to sample with, its step
  on given blocks, without the time to sample them (:mod:`experiments.baselines.pyg_training`).
- ``pagraph``, ``quiver``: strategies of this engine, after these systems: data parallelism with a cache for each
  trainer, or with one cache that trainers read from each other.
- ``torch-quiver``: the library of that name, where it can be imported; it needs a GPU.

What happens, in order:

1. *Search*: each system begins with its defaults, then one choice after another is varied, and what is fastest stays:
   glibc's memory (as it comes, or kept: ``experiments.shared.processes.MEMORY``), processes that sample, form of the
   sampler. Blocks are checked first; a form with corrupt blocks is left out. All that was tried is in the results.
2. *Memory*: one run of each, watched every 0.2 s. The others are not watched, since that takes time from them.
3. *Rounds*: all systems run in turn, each round begins with another one, and of each run the first epoch is dropped.
   A ratio is of one round, then the median over rounds is taken. Before each run a fixed loop on all cores is timed;
   a round in which it took 15 % more or less than the median of all is marked, and ratios are given without such
   rounds as well.
4. *Accuracy*: one more run of each, in which the validation and test vertices are evaluated after each epoch, over
   all neighbours, outside what is timed. Its seconds are epochs times the median epoch of the rounds.
5. *Sweeps* by size of the cache or of the mini-batch, where asked for, in rounds likewise.

``OUT`` gets ``comparison.json`` (all numbers) and ``comparison.md`` (tables); docs/formats.md has the keys. A system
that cannot run is listed with the reason. The exit code is 1 where one failed that should run.
"""
