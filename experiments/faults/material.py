"""One sound file of every kind that a command reads, of one small graph, to be damaged.

    python -m experiments.faults.material FOLDER

A process of its own, because the experiment forks and must have no threads, which partitioning and training leave.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gsplit
from gsplit.data.__main__ import command as data
from gsplit.partition import PartitionConfig, partition

VERTICES, EDGES, FEATURES, CLASSES = 60, 240, 4, 3
RECIPE = """# a recipe
store = "store"
out = "out/layout"
parts = 2
method = "random"
weights = "uniform"
fan-out = [3, 3]
batch-size = 8
imbalance = 0.05
cuts = 1
seed = 1
overwrite = false
"""
METADATA = """dataset_name: mine
graph:
  nodes:
    - num: 60
  edges:
    - format: numpy
      path: edges.npy
feature_data:
  - domain: node
    name: feat
    format: numpy
    path: feat.npy
  - domain: edge
    name: weight
    format: torch
    path: weight.pt
tasks:
  - num_classes: 3
    train_set:
      - data:
          - {name: seeds, format: numpy, path: train.npy}
          - {name: labels, format: numpy, path: train_labels.npy}
    test_set:
      - data:
          - {name: seeds, format: numpy, path: test.npy}
          - {name: labels, format: numpy, path: test_labels.npy}
"""


def make(folder: Path) -> None:
    """Write all of them; those whose library is missing are left out."""
    random = np.random.default_rng(0)
    edges = np.unique(random.integers(VERTICES, size=(2, EDGES)), axis=1)
    x = random.random((VERTICES, FEATURES), np.float32)
    y = np.arange(VERTICES) % CLASSES
    weight = random.random((edges.shape[1],), np.float32)
    train, valid, test = np.arange(30), np.arange(30, 45), np.arange(45, VERTICES)
    _tables(folder, edges, weight, x, y)
    splits = {"train": train, "valid": valid, "test": test}
    _arrays(folder, edges, weight, x, y, splits)
    _matrices(folder, edges, weight)
    _libraries(folder, edges, weight, x, y)
    _ogb(folder, edges, x, y)
    _graphbolt(folder, edges, weight, x, y)
    (folder / "recipe.toml").write_text(RECIPE)
    _own(folder, edges, x, y, splits)


def _text(rows: NDArray[Any], mark: str, header: str = "") -> str:
    return header + "".join(mark.join(map(str, row)) + "\n" for row in rows.tolist())


def _tables(folder: Path, edges: NDArray[Any], weight: NDArray[Any], x: NDArray[Any], y: NDArray[Any]) -> None:
    weighted = [[int(u), int(v), round(float(w), 3)] for (u, v), w in zip(edges.T, weight, strict=True)]
    lines = "".join(f"{u},{v},{w}\n" for u, v, w in weighted)
    (folder / "edges.csv").write_text("src,dst,weight\n" + lines)
    (folder / "edges.tsv").write_text(_text(edges.T, "\t"))
    (folder / "edges.txt").write_text("# edges\n" + _text(edges.T, "  "))
    (folder / "edges.csv.gz").write_bytes(gzip.compress(_text(edges.T, ",", "from,to\n").encode()))
    (folder / "features.csv").write_text(
        _text(np.hstack([np.arange(VERTICES)[:, None], x]), ",", "id,a,b,c,d\n").replace(".0,", ",")
    )
    (folder / "labels.csv").write_text(_text(np.stack([np.arange(VERTICES), y], axis=1), ",", "id,label\n"))
    (folder / "train.txt").write_text("".join(f"{vertex}\n" for vertex in range(30)))
    (folder / "split.csv").write_text("".join(f"{'train' if v < 30 else 'test'}\n" for v in range(VERTICES)))
    (folder / "vertices.txt").write_text("3\n1\n2\n")
    with contextlib.suppress(ImportError):
        import pyarrow as pa
        import pyarrow.parquet as parquet

        columns = {"src": edges[0], "dst": edges[1], "weight": weight}
        parquet.write_table(pa.table(columns), folder / "edges.parquet")
        others = {
            "text": {"src": ["a"] * 3, "dst": ["b"] * 3},
            "nulls": {"src": pa.array([0, None, 2]), "dst": pa.array([1, 2, 3])},
            "huge": {"src": [2**62], "dst": [2**62]},
            "unsigned": {"src": pa.array([2**64 - 1], pa.uint64()), "dst": pa.array([0], pa.uint64())},
            "nested": {"src": [[0], [1]], "dst": [{"a": 1}, {"a": 2}]},
            "dates": {"src": pa.array([0, 1], pa.timestamp("ns")), "dst": pa.array([0, 1], pa.date32())},
            "decimals": {"src": pa.array([0, 1]).cast(pa.decimal128(20)), "dst": [1, 2]},
            "columns": {"a\nb": [0, 1], "\x1b[31m": [1, 2], "": [1, 2]},
            "weights": {"src": [0, 1], "dst": [1, 2], "weight": ["x", "y"]},
            "empty": {"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64())},
        }
        (folder / "parquet").mkdir()
        for name, table in others.items():
            parquet.write_table(pa.table(table), folder / "parquet" / f"{name}.parquet")


def _arrays(
    folder: Path, edges: NDArray[Any], weight: NDArray[Any], x: NDArray[Any], y: NDArray[Any], splits: dict[str, Any]
) -> None:
    named: dict[str, Any] = {"x": x, "y": y, "edge_weight": weight}
    ids = {f"{name}_idx": values for name, values in splits.items()}
    order = np.argsort(edges[1], kind="stable")
    indptr = np.searchsorted(edges[1][order], np.arange(VERTICES + 1))
    np.savez(folder / "graph.npz", indptr=indptr, indices=edges[0][order], **named, **ids)
    for name, arrays in (("coo", {"edge_index": edges}), ("csc", {"indptr": indptr, "indices": edges[0][order]})):
        (folder / name).mkdir()
        for key, values in {**arrays, **named, **ids}.items():
            np.save(folder / name / f"{key}.npy", values)
    np.save(folder / "edges.npy", edges)
    np.save(folder / "features.npy", x)
    np.save(folder / "labels.npy", y)
    np.save(folder / "train.npy", splits["train"])
    np.save(folder / "split.npy", np.array(["train"] * 30 + ["test"] * 30))
    np.save(folder / "vertices.npy", np.array([3, 1, 2]))


def _matrices(folder: Path, edges: NDArray[Any], weight: NDArray[Any]) -> None:
    with contextlib.suppress(ImportError):
        import scipy.io
        import scipy.sparse

        matrix = scipy.sparse.coo_array((weight, tuple(edges)), shape=(VERTICES, VERTICES))
        scipy.io.mmwrite(folder / "graph.mtx", matrix)
        (folder / "graph.mtx.gz").write_bytes(gzip.compress((folder / "graph.mtx").read_bytes()))
        for form in ("coo", "csr", "bsr", "dia"):
            scipy.sparse.save_npz(folder / f"matrix-{form}.npz", matrix.asformat(form))


def _libraries(folder: Path, edges: NDArray[Any], weight: NDArray[Any], x: NDArray[Any], y: NDArray[Any]) -> None:
    import torch

    tensors = {"edge_index": edges, "edge_weight": weight, "x": x, "y": y, "train_mask": np.arange(VERTICES) < 30}
    torch.save({name: torch.from_numpy(values) for name, values in tensors.items()}, folder / "graph.pt")
    with contextlib.suppress(ImportError):
        from torch_geometric.data import Data, HeteroData

        torch.save(Data(**{name: torch.from_numpy(values) for name, values in tensors.items()}), folder / "data.pt")
        typed = HeteroData(paper={name: torch.from_numpy(tensors[name]) for name in ("x", "y", "train_mask")})
        typed["author"].num_nodes = VERTICES
        for relation in (("author", "writes", "paper"), ("paper", "cites", "paper")):
            typed[relation].edge_index = torch.from_numpy(edges)
        torch.save(typed, folder / "typed.pt")
    with contextlib.suppress(ImportError, OSError):
        from gsplit.data.importers.formats.dgl import import_dgl

        with contextlib.redirect_stderr(io.StringIO()):
            dgl = import_dgl()
        graph = dgl.graph(tuple(map(torch.from_numpy, edges)), num_nodes=VERTICES)
        graph.ndata["feat"], graph.ndata["label"] = torch.from_numpy(x), torch.from_numpy(y)
        dgl.save_graphs(str(folder / "graph.bin"), [graph])


def _ogb(folder: Path, edges: NDArray[Any], x: NDArray[Any], y: NDArray[Any]) -> None:
    import torch

    def packed(path: Path, rows: NDArray[Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(_text(rows, ",").encode()))

    splits = {"train": np.arange(30), "valid": np.arange(30, 45), "test": np.arange(45, VERTICES)}
    arxiv, papers, mag = (folder / "ogb" / f"ogbn_{name}" for name in ("arxiv", "papers100M", "mag"))
    for time in (arxiv / "split" / "time", papers / "split" / "time", mag / "split" / "time" / "paper"):
        for name, ids in splits.items():
            packed(time / f"{name}.csv.gz", ids[:, None])
    packed(mag / "raw" / "num-node-dict.csv.gz", np.array([["paper", "field"], [VERTICES, 3]]))
    packed(
        mag / "raw" / "triplet-type-list.csv.gz", np.array([["paper", "cites", "paper"], ["field", "of", "paper"]])
    )
    packed(mag / "raw" / "relations" / "paper___cites___paper" / "edge.csv.gz", edges.T)
    packed(mag / "raw" / "relations" / "field___of___paper" / "edge.csv.gz", np.array([[0, 1], [2, 1], [2, 3]]))
    packed(mag / "raw" / "node-feat" / "paper" / "node-feat.csv.gz", x)
    packed(mag / "raw" / "node-label" / "paper" / "node-label.csv.gz", y[:, None])
    packed(arxiv / "raw" / "edge.csv.gz", edges.T)
    packed(arxiv / "raw" / "num-node-list.csv.gz", np.array([[VERTICES]]))
    packed(arxiv / "raw" / "num-edge-list.csv.gz", np.array([[edges.shape[1]]]))
    packed(arxiv / "raw" / "node-feat.csv.gz", x)
    packed(arxiv / "raw" / "node-label.csv.gz", y[:, None])
    torch.save(
        {name: torch.from_numpy(ids) for name, ids in splits.items()}, arxiv / "split" / "time" / "split_dict.pt"
    )
    for name in splits:
        (arxiv / "split" / "time" / f"{name}.csv.gz").unlink()
    (papers / "raw").mkdir()
    counts: dict[str, Any] = {"num_nodes_list": np.array([VERTICES]), "num_edges_list": np.array([edges.shape[1]])}
    np.savez(papers / "raw" / "data.npz", edge_index=edges, node_feat=x, **counts)
    np.savez(papers / "raw" / "node-label.npz", node_label=y[:, None].astype(np.float32))


def _graphbolt(folder: Path, edges: NDArray[Any], weight: NDArray[Any], x: NDArray[Any], y: NDArray[Any]) -> None:
    import torch

    root = folder / "graphbolt"
    root.mkdir()
    (root / "metadata.yaml").write_text(METADATA)
    arrays = {"edges": edges, "feat": x, "train": np.arange(30), "test": np.arange(30, VERTICES)}
    arrays |= {"train_labels": y[:30], "test_labels": y[30:]}
    for name, values in arrays.items():
        np.save(root / f"{name}.npy", values)
    torch.save(torch.from_numpy(weight), root / "weight.pt")


def _own(
    folder: Path, edges: NDArray[Any], x: NDArray[Any], y: NDArray[Any], splits: dict[str, NDArray[np.int64]]
) -> None:
    """What GSplit writes itself: stores and layouts of one type and of several, a run with a trace."""
    gsplit.from_arrays(
        {"paper": x, "author": VERTICES},
        {("author", "writes", "paper"): edges, ("paper", "cites", "paper"): edges[::-1]},
        labels={"paper": y},
        train=splits["train"],
        valid=splits["valid"],
        test=splits["test"],
        out=folder / "typed",
    )
    partition(PartitionConfig(store=folder / "typed", out=folder / "typed-layout", parts=2, method="random"))
    data(["import", str(folder / "graph.npz"), "--out", str(folder / "store")])
    partition(PartitionConfig(store=folder / "store", out=folder / "layout", parts=2, method="random"))
    config = gsplit.TrainConfig(
        layout=folder / "layout",
        out=folder / "run",
        epochs=1,
        hidden=4,
        fan_out=(3, 3),
        batch_size=8,
        device="cpu",
        threads=1,
        samplers=1,
        profile=True,
    )
    gsplit.train(config=config)
    # The run goes on wherever a copy of all this lies.
    path = folder / "run" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "layout": "layout", "out": "run"}, indent=2))
    (folder / "run" / "trace.json").rename(folder / "trace.json")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
