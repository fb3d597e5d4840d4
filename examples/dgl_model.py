"""A model of DGL, as its examples write one for blocks: train it by split parallelism, and have a DGL model again.

    python examples/dgl_model.py [FOLDER]

The run is written to FOLDER, or to a new one in the place for temporary files. It takes some seconds and needs
DGL: pip install 'gsplit[dgl]', with Python 3.11 or older.
"""

import sys
import tempfile
from pathlib import Path

import torch

import gsplit

try:
    import dgl
    from dgl.nn import SAGEConv
except ImportError as error:
    sys.exit(f"this example needs DGL: pip install 'gsplit[dgl]', with Python 3.11 or older ({error})")


class SAGE(torch.nn.Module):
    """Two convolutions, each on the block of its layer."""

    def __init__(self, in_size, hid_size, out_size):
        super().__init__()
        self.first = SAGEConv(in_size, hid_size, "mean")
        self.second = SAGEConv(hid_size, out_size, "mean")

    def forward(self, blocks, x):
        """Logits of the targets."""
        return self.second(blocks[1], self.first(blocks[0], x).relu())


def make_graph():
    """What stands here for your graph: a ring of vertices in four colours, which the features hardly tell apart."""
    torch.manual_seed(0)
    sources = torch.arange(800).repeat(6)
    graph = dgl.to_simple(dgl.graph((sources, (sources + torch.randint(1, 10, (4800,))) % 800)))
    label = torch.arange(4).repeat_interleave(200)
    graph.ndata["label"] = label
    graph.ndata["feat"] = torch.randn(800, 16) + torch.nn.functional.one_hot(label, 16)
    drawn = torch.randperm(800)
    for name, first, last in (("train_mask", 0, 500), ("val_mask", 500, 600), ("test_mask", 600, 800)):
        graph.ndata[name] = (first <= drawn) & (drawn < last)
    return graph


if __name__ == "__main__":  # trainers are processes that import this script
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    graph = make_graph()
    layout = gsplit.partition(gsplit.from_dgl(graph), parts=2)

    model = SAGE(16, 32, 4)
    config = gsplit.TrainConfig(
        out=folder / "run", fan_out=(10, 10), epochs=8, lr=0.01, batch_size=100, overwrite=True
    )
    summary = gsplit.train(layout, config, model=model)
    print(f"test accuracy {summary['test_accuracy']:.4f}")

    trained = gsplit.load(folder / "run", model=model)  # knows nothing of GSplit
    with torch.no_grad():  # all neighbours: the whole graph is the block of both layers
        right = trained([graph, graph], graph.ndata["feat"]).argmax(1) == graph.ndata["label"]
    print(f"test accuracy by DGL on the whole graph {right[graph.ndata['test_mask']].float().mean():.4f}")
    print(f"the run is in {folder / 'run'}")
