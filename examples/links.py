"""Links on CSV files of one's own: which songs belong together, and the ten that go best with one.

    python examples/links.py [FOLDER]

A share of the pairs is held out of the graph, to validate and to test. Everything is written to FOLDER, or to a new
one in the place for temporary files. It takes some seconds.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import gsplit

BANDS, SONGS = 40, 20


def write_csv(folder):
    """Write what stands here for your files: which songs were played after each other, and six numbers a song."""
    rng = np.random.default_rng(0)
    names = np.array([f"band {band} song {song}" for band in range(BANDS) for song in range(SONGS)])
    plays = rng.integers(BANDS * SONGS, size=(5000, 2))
    same = rng.random(5000) < 0.8  # most are followed by one of the same band
    plays[same, 1] = plays[same, 0] // SONGS * SONGS + rng.integers(SONGS, size=same.sum())
    songs = np.c_[names, rng.normal(size=(BANDS, 6)).repeat(SONGS, axis=0) + 0.5 * rng.normal(size=(len(names), 6))]
    for file, header, rows in (("plays", "song,next", names[plays]), ("songs", "song,a,b,c,d,e,f", songs)):
        np.savetxt(folder / f"{file}.csv", rows, fmt="%s", delimiter=",", header=header, comments="")
    return names


if __name__ == "__main__":  # trainers are processes that import this script
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    names = write_csv(folder)

    gsplit.import_graph(
        folder / "plays.csv",
        folder / "graph",
        ids="any",  # songs are called as they are called
        source_column="song",
        destination_column="next",
        features=folder / "songs.csv",
        id_column="song",
        undirected=True,
        edge_split=(0.85, 0.05, 0.1),  # train, valid, test
        overwrite=True,
    )
    gsplit.partition(folder / "graph", folder / "layout", parts=2, overwrite=True)  # a part for each trainer
    config = gsplit.TrainConfig(
        out=folder / "run",
        task="links",
        negatives="uniform:4",  # out of all songs, whichever trainer has them
        loss="softmax",
        metrics="hits@10",
        fan_out=(5, 5),
        hidden=32,
        epochs=4,
        lr=0.01,
        batch_size=256,  # pairs
        overwrite=True,
    )
    summary = gsplit.train(folder / "layout", config)
    print(f"of the pairs held out {summary['test_hits@10']:.0%} are among the ten best of all songs")

    ten = folder / "neighbours.csv"  # top_k=10, and none that was played next to it already
    gsplit.predict(folder / "run", folder / "layout", what="neighbours", vertices=names[:1], out=ten, overwrite=True)
    print(ten.read_text(), end="")
    print(f"all files are in {folder}")
