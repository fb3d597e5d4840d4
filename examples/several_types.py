"""Several types of vertices: a HeteroData of PyG, trained by R-GCN; classes of papers, and vectors of their authors.

    python examples/several_types.py [FOLDER]

The run is written to FOLDER, or to a new one in the place for temporary files. It takes some seconds and needs
PyG: pip install 'gsplit[pyg]'.
"""

import sys
import tempfile
from pathlib import Path

import torch

import gsplit

try:
    from torch_geometric.data import HeteroData
except ImportError as error:
    sys.exit(f"this example needs PyG: pip install 'gsplit[pyg]' ({error})")

PAPERS, AUTHORS, VENUES, TOPICS = 600, 150, 9, 3


def make_data():
    """What stands here for your ``HeteroData``: papers of three topics; venues have no features."""
    torch.manual_seed(0)
    topic = torch.randint(TOPICS, (PAPERS,))
    author, venue = torch.arange(AUTHORS) % TOPICS, torch.arange(VENUES) % TOPICS

    def of_topic(among):
        """For each paper one that mostly has its topic, out of those that ``among`` gives topics."""
        fits = (topic[:, None] == among[None]).float()
        return torch.multinomial(fits + 0.1, 1).squeeze(1)

    papers = torch.arange(PAPERS)
    data = HeteroData()
    data["paper"].x = torch.randn(PAPERS, 8)  # noise: what there is to learn lies around a paper
    data["author"].x = torch.nn.functional.one_hot(author, 4) + torch.randn(AUTHORS, 4)
    data["venue"].num_nodes = VENUES
    data["author", "writes", "paper"].edge_index = torch.stack([of_topic(author), papers])
    data["paper", "appears_in", "venue"].edge_index = torch.stack([papers, of_topic(venue)])
    data["paper"].y = topic
    shuffled = torch.randperm(PAPERS)
    for name, ids in zip(("train", "val", "test"), shuffled.split([300, 100, 200]), strict=True):
        data["paper"][f"{name}_mask"] = torch.zeros(PAPERS, dtype=torch.bool).index_fill(0, ids, True)
    return data


if __name__ == "__main__":  # trainers are processes that import this script
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    graph = gsplit.from_pyg(make_data(), reverse=True)  # edges into papers from venues, too
    layout = gsplit.partition(graph, parts=2)
    config = gsplit.TrainConfig(
        out=folder / "run",
        model="rgcn",
        fan_out=(5, 5),
        fan_out_of="appears_in=5,20",  # venues have many
        train_features=8,  # rows of venues are learned
        hidden=32,
        epochs=10,
        lr=0.01,
        batch_size=100,
        overwrite=True,
    )
    summary = gsplit.train(layout, config)
    print(f"test accuracy {summary['test_accuracy']:.4f}")
    vectors = gsplit.predict(folder / "run", layout, what="embeddings", type="author")
    print(f"vectors of {len(vectors)} authors, {vectors.shape[1]} wide; the run is in {folder / 'run'}")
