"""A model of PyG, unmodified: train it by split parallelism, and have a PyG model again.

    python examples/pyg_model.py [FOLDER]

The run is written to FOLDER, or to a new one in the place for temporary files. It takes some seconds and needs
PyG: pip install 'gsplit[pyg]'.
"""

import sys
import tempfile
from pathlib import Path

import torch

import gsplit

try:
    from torch_geometric.data import Data
    from torch_geometric.nn import GraphSAGE
    from torch_geometric.transforms import RandomNodeSplit
    from torch_geometric.utils import stochastic_blockmodel_graph
except ImportError as error:
    sys.exit(f"this example needs PyG: pip install 'gsplit[pyg]' ({error})")


def make_data():
    """What stands here for your ``Data``: four groups of vertices, which the features hardly tell apart."""
    torch.manual_seed(0)
    y = torch.arange(4).repeat_interleave(200)
    edge_index = stochastic_blockmodel_graph([200] * 4, 0.002 + 0.03 * torch.eye(4))
    data = Data(x=torch.randn(800, 16) + torch.nn.functional.one_hot(y, 16), y=y, edge_index=edge_index)
    return RandomNodeSplit(num_val=100, num_test=200)(data)


if __name__ == "__main__":  # trainers are processes that import this script
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    data = make_data()
    layout = gsplit.partition(gsplit.from_pyg(data), parts=2)

    model = GraphSAGE(in_channels=16, hidden_channels=32, num_layers=2, out_channels=4, dropout=0.2)
    config = gsplit.TrainConfig(
        out=folder / "run", fan_out=(10, 10), epochs=8, lr=0.01, batch_size=100, overwrite=True
    )
    summary = gsplit.train(layout, config, model=model)
    print(f"test accuracy {summary['test_accuracy']:.4f}")

    trained = gsplit.load(folder / "run", model=model)  # knows nothing of GSplit
    with torch.no_grad():
        right = trained(data.x, data.edge_index).argmax(1) == data.y
    print(f"test accuracy by PyG on the whole graph {right[data.test_mask].float().mean():.4f}")
    print(f"the run is in {folder / 'run'}")
