"""Node classification on CSV files of one's own: import, partition, train, predict.

    python examples/own_csv.py [FOLDER]

Everything is written to FOLDER, or to a new one in the place for temporary files. It takes some seconds.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import gsplit


def write_csv(folder):
    """Write what stands here for your files: who cites whom, two numbers a paper, and its topic from 0 to 2."""
    rng = np.random.default_rng(0)
    topics = rng.integers(3, size=600)
    features = rng.normal(size=(600, 2)) + topics[:, None]
    near, any_ = np.argsort(topics + rng.random(600)), rng.integers(600, size=(600, 2))  # most cite their own topic
    edges = [(near[i], near[(i + step) % 600]) for i in range(600) for step in (1, 2, 5, 9)] + any_.tolist()
    ids = np.arange(600)
    np.savetxt(folder / "edges.csv", edges, fmt="%d", delimiter=",", header="src,dst", comments="")
    np.savetxt(folder / "features.csv", np.c_[ids, features], delimiter=",", header="paper,a,b", comments="")
    np.savetxt(folder / "topics.csv", np.c_[ids, topics], fmt="%d", delimiter=",", header="paper,topic", comments="")
    return topics


if __name__ == "__main__":  # trainers are processes that import this script
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    topics = write_csv(folder)

    gsplit.import_graph(
        folder / "edges.csv",
        folder / "graph",
        features=folder / "features.csv",
        labels=folder / "topics.csv",
        id_column="paper",
        undirected=True,
        split=(0.6, 0.2, 0.2),  # train, valid, test
        overwrite=True,  # so that this script can be run again
    )
    gsplit.partition(folder / "graph", folder / "layout", parts=2, overwrite=True)  # a part for each trainer

    config = gsplit.TrainConfig(
        out=folder / "run", fan_out=(5, 5), hidden=32, epochs=10, lr=0.02, batch_size=64, overwrite=True
    )
    summary = gsplit.train(folder / "layout", config)
    print(f"test accuracy {summary['test_accuracy']:.3f}")

    papers = [0, 1, 2, 3, 4]
    for paper, topic in zip(papers, gsplit.predict(folder / "run", folder / "layout", vertices=papers), strict=True):
        print(f"paper {paper}: topic {topic} predicted, {topics[paper]} is right")
    print(f"all files are in {folder}")
