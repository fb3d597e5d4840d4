"""Two trainers that Ray Train starts, on this machine or on a cluster.

    python examples/ray_train.py [FOLDER]

Ray starts the processes, gives each its place and makes PyTorch's default group; there ``gsplit.train`` is one
trainer of all, as under torchrun, and starts none. On a cluster FOLDER is one that all hosts see, ``num_workers``
the number of all trainers, as many on each host, with ``use_gpu=True``. Everything is written to FOLDER, or to a new
one in the place for temporary files.
"""

import json
import sys
import tempfile
from pathlib import Path

import gsplit

try:
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer
except ImportError as error:
    sys.exit(f"this example needs Ray Train: pip install 'ray[train]' ({error})")


def work(config):
    """What each of Ray's workers does."""
    import gsplit

    summary = gsplit.train(config=gsplit.TrainConfig(**config))  # the same in every worker
    print(f"a worker of Ray: test accuracy {summary['test_accuracy']:.4f}")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()).absolute()
    gsplit.import_graph("synthetic:tiny", folder / "graph", overwrite=True)
    gsplit.partition(folder / "graph", folder / "layout", parts=2, overwrite=True)

    config = {"layout": folder / "layout", "out": folder / "run", "overwrite": True, "device": "cpu"}
    config |= {"fan_out": (10, 10), "hidden": 32, "epochs": 5, "lr": 0.01}
    TorchTrainer(
        work,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="gsplit", storage_path=str(folder / "ray")),
    ).fit()
    summary = json.loads((folder / "run" / "summary.json").read_text())
    print(f"{summary['epochs']} epochs, test accuracy {summary['test_accuracy']:.4f}; the run is in {folder / 'run'}")
