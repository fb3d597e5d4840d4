"""Three strategies on one graph: what each loads, sends and computes, and what it learns.

    python examples/compare_strategies.py [FOLDER]

split: one mini-batch, split over the trainers without overlap. data: a micro-batch for each, as DGL and PyG do. full:
one step an epoch, on the whole graph. Bytes and edges are counts, and hold for any machine; times of a small graph on
the CPU say little about GPUs. Everything is written to FOLDER, or to a new one in the place for temporary files.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path

import gsplit

if __name__ == "__main__":  # trainers are processes that import this script
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    gsplit.import_graph("synthetic:tiny", folder / "graph", overwrite=True)
    gsplit.partition(folder / "graph", folder / "layout", parts=2, overwrite=True)

    recipe = partial(gsplit.TrainConfig, hidden=32, epochs=5, lr=0.01, overwrite=True)
    configs = [
        recipe(out=folder / "split", strategy="split", fan_out=(10, 10), batch_size=128),
        recipe(out=folder / "data", strategy="data", fan_out=(10, 10), batch_size=128),
        recipe(out=folder / "full", strategy="full", num_layers=2),
    ]
    rows = []
    for config in configs:
        print(f"--strategy {config.strategy}")
        summary = gsplit.train(folder / "layout", config)
        traffic = summary["traffic"]  # sums over all epochs and trainers; metrics.jsonl has every mini-batch
        loaded = traffic["host_to_device_bytes"] / 1024
        sent = (traffic["exchange_forward_bytes"] + traffic["exchange_backward_bytes"]) / 1024
        rows.append((config.strategy, loaded, sent, traffic["computed_edges"], summary))

    print("\nstrategy  KiB loaded  KiB exchanged  edges computed  accuracy  s/epoch")
    for strategy, loaded, sent, edges, summary in rows:
        accuracy, seconds = summary["test_accuracy"], summary["seconds_per_epoch"]
        print(f"{strategy:8}{loaded:12,.0f}{sent:15,.0f}{edges:16,}{accuracy:10.4f}{seconds:9.3f}")
    gsplit.report(*(folder / name for name, *_ in rows), out=folder / "report.html")
    print(f"\n{folder / 'report.html'} has the three beside each other; times on a CPU say little")
