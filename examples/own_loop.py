"""A training loop of one's own: here a loss that also keeps logits small, and is looked at every epoch.

    python examples/own_loop.py [FOLDER]

Each trainer calls ``loop`` and goes through its share of every mini-batch. ``run.backward`` takes the *sum* of the
losses of the own targets, and leaves the gradients of the whole mini-batch; validation, checkpoints and the end of
the run happen between two mini-batches. Everything is written to FOLDER, or to a new one in the place for temporary
files.
"""

import sys
import tempfile
from pathlib import Path

import torch.nn.functional as F

import gsplit


def loop(run):
    """Train on all mini-batches of all epochs; a trainer may have no target in some."""
    for batch in run:  # .blocks, .x, .labels, .global_ids of the own targets; .num_targets of all trainers
        logits = run.model(batch.blocks, batch.x)
        entropy = F.cross_entropy(logits, batch.labels, reduction="sum")
        size = logits.square().sum()
        run.backward(entropy + 0.01 * size)
        run.step()
        if run.rank == 0 and batch.number == 0:
            print(
                f"epoch {batch.epoch + 1}: trainer 0 of {run.trainers} has {len(batch.labels)} of the "
                f"{batch.num_targets} targets of the first mini-batch, entropy {entropy.item():.2f}, "
                f"size {size.item():.1f}",
                flush=True,
            )


if __name__ == "__main__":  # trainers are processes that import this script
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    gsplit.import_graph("synthetic:tiny", folder / "graph", overwrite=True)
    gsplit.partition(folder / "graph", folder / "layout", parts=2, overwrite=True)
    config = gsplit.TrainConfig(
        out=folder / "run", fan_out=(5, 5), hidden=32, epochs=5, lr=0.01, batch_size=100, overwrite=True
    )
    summary = gsplit.train(folder / "layout", config, loop=loop)
    print(f"test accuracy {summary['test_accuracy']:.4f}; all files are in {folder}")
