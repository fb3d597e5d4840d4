"""``gsplit import SOURCE --out DIR``, ``export DIR --to KIND --out FILE`` and ``info DIR``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from gsplit import cli
from gsplit.data import layout, store
from gsplit.data.api import make_store
from gsplit.data.build import BuildOptions
from gsplit.data.graph import GraphArrays
from gsplit.data.growing.lineage import grown_from
from gsplit.data.importers import USUAL
from gsplit.data.importers.keys import Keys
from gsplit.data.importers.named_edges import IdOptions
from gsplit.data.importers.vertex_files import VertexFiles
from gsplit.errors import InputError

PROG = "python -m gsplit.data"


def import_(
    source: Annotated[str, tyro.conf.Positional],
    out: Path,
    name: str | None = None,
    root: Path | None = None,
    overwrite: bool = False,
    add: str | None = None,
    vertices: tyro.conf.OmitArgPrefixes[VertexFiles] = VertexFiles(),  # noqa: B008 (frozen)
    keys: tyro.conf.OmitArgPrefixes[Keys] = USUAL,
    ids: tyro.conf.OmitArgPrefixes[IdOptions] = IdOptions(),  # noqa: B008
    build: tyro.conf.OmitArgPrefixes[BuildOptions] = BuildOptions(),  # noqa: B008
) -> None:
    """Make a graph store.

    Args:
        source: an edge list (.csv, .tsv, .txt, .parquet), a matrix (.mtx, SciPy's .npz), a folder of .npy arrays, a
            graph of PyG (.pt), DGL (.bin) or GraphBolt (a folder), GSplit's own .npz, a graph store, ogb:NAME, or
            synthetic:PRESET
            (tiny, small, medium, large, huge, and products, papers and amazon, which are like the paper's graphs;
            synthetic:papers?scale=0.05 is one shrunk to 5 percent). KIND:PATH says what a path is: csv, parquet, mtx,
            scipy, numpy, pyg, dgl, graphbolt or npz.
        out: the folder to write.
        name: what to call the graph; by default the name of the source.
        root: where OGB's datasets are, for ogb:NAME; by default dataset, as for OGB.
        overwrite: replace the folder if it is there.
        add: an edge list. SOURCE is a graph store then, and the new store has all of it, these edges and their new
            vertices; files of features, labels and sets are of the new vertices, or name them, and old ones, by id.
    """
    made = make_store(
        source,
        out,
        name=name,
        root=root,
        overwrite=overwrite,
        add=add,
        files=vertices,
        keys=keys,
        ids=ids,
        build=build,
    )
    print(f"{out}: {_counts(made.graph)}")


def export_(
    path: Annotated[Path, tyro.conf.Positional], to: Literal["pyg", "dgl", "npz"], out: Path, overwrite: bool = False
) -> None:
    """Write a graph store for another library.

    Args:
        path: the graph store.
        to: pyg: a Data in a .pt; dgl: a graph in a .bin; npz: GSplit's own .npz.
        out: the file to write.
        overwrite: replace the file if it is there.
    """
    from gsplit.data.exporters import export

    export(path, to, out, overwrite=overwrite)
    print(f"{out}: written for {to}")


def info(path: Annotated[Path, tyro.conf.Positional], verify: bool = False, store_dir: Path | None = None) -> None:
    """Check a graph store or a layout and print what is in it.

    Args:
        path: the folder.
        verify: also compare the checksum of every array.
        store_dir: for a layout, the graph store it should have been made from.
    """
    if (path / layout.FILE).is_file():
        _layout_info(path, verify, store_dir)
        return
    if store_dir is not None:
        raise InputError(f"--store-dir is for layouts, and {path} is none")
    opened = store.open_store(path, verify=verify)
    print(f"graph store {opened.name} ({path}), checksum {opened.checksum[:16]}" + (", verified" if verify else ""))
    if before := grown_from(opened.description, str(path / store.FILE)):
        print(f"  grown from {before[-1][:16]}, in {len(before)} steps")
    _print_graph(opened.graph)


def _layout_info(path: Path, verify: bool, store_dir: Path | None) -> None:
    opened = layout.open_layout(path, verify=verify)
    if store_dir is not None and store.open_store(store_dir).checksum != opened.store_checksum:
        raise InputError(f"{path} was made from another store than {store_dir}; run gsplit partition again")
    about = opened.description
    print(f"layout {opened.name} ({path}), checksum {opened.checksum[:16]}" + (", verified" if verify else ""))
    print(
        f"  made from store {opened.store_checksum[:16]}: {opened.parts} parts, method {about['method']}, "
        f"weights {about['weights']}, seed {about['seed']}, hottest by {about['hotness']}"
    )
    _print_graph(opened.graph)
    for key, value in about["quality"].items():
        print(f"  {key:<22} {value:.4g}" if isinstance(value, float) else f"  {key:<22} {value}")


def _counts(graph: GraphArrays) -> str:
    weights = "" if graph.edge_weight is None else "edge weights, "
    outputs = f"{graph.num_classes} {_outputs(graph)}"
    return (
        f"{graph.num_vertices:,} vertices, {graph.num_edges:,} directed edges, {graph.num_features} features, "
        f"{outputs}, {weights}train/valid/test {len(graph.train_idx):,}/{len(graph.valid_idx):,}/"
        f"{len(graph.test_idx):,}"
    )


def _outputs(graph: GraphArrays) -> str:
    """What a model has as outputs."""
    return "outputs of a regression" if graph.regression else "classes"


def _print_graph(graph: GraphArrays) -> None:
    degrees = np.diff(graph.indptr)
    kinds = {"labels": "multi-label", "classes": "multi-class", "regression": "regression"}
    kind = kinds[graph.task] if graph.num_classes else "no"
    print(f"  {_counts(graph)}")
    print(
        f"  in-degree: mean {degrees.mean():.1f}, median {int(np.median(degrees))}, largest {degrees.max():,}, "
        f"without neighbours {int((degrees == 0).sum()):,}"
    )
    features = (
        "none" if graph.features is None else f"{graph.features.dtype}, {graph.features.nbytes / 2**20:,.1f} MiB"
    )
    print(f"  features {features}; indices {graph.indices.dtype}; {kind} labels")


def command(arguments: list[str], prog: str = PROG) -> None:
    """Run ``import``, ``export`` or ``info``; ``prog`` is what complaints call the command."""
    cli.subcommand({"import": import_, "export": export_, "info": info}, arguments, prog=prog, about=__doc__ or "")


if __name__ == "__main__":
    cli.main(command)
