"""``gsplit import SOURCE --out DIR``, ``export DIR --to KIND --out FILE`` and ``info DIR``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from gsplit import cli
from gsplit.config.flags import Positional
from gsplit.data import layout, store
from gsplit.data.api import make_store
from gsplit.data.build_options import BuildOptions
from gsplit.data.importers.attached.link_files import NO_LINKS, LinkFiles
from gsplit.data.importers.attached.vertex_files import VertexFiles
from gsplit.data.importers.keys import USUAL, Keys
from gsplit.data.importers.named_edges import IdOptions
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.data.inspect.overview import look
from gsplit.data.inspect.render.graph_page import check_page_free, write_page
from gsplit.data.inspect.render.lines import for_output, lines, typed_lines
from gsplit.data.inspect.render.sentences import counts
from gsplit.data.typed_graph import TypedGraph
from gsplit.errors import InputError
from gsplit.terminal import say

PROG = "python -m gsplit.data"


def import_(
    source: Annotated[str, Positional],
    out: Path,
    name: str | None = None,
    root: Path | None = None,
    overwrite: bool = False,
    add: str | None = None,
    vertices: VertexFiles = VertexFiles(),  # noqa: B008 (frozen)
    links: LinkFiles = NO_LINKS,
    keys: Keys = USUAL,
    ids: IdOptions = IdOptions(),  # noqa: B008
    texts: TextRules = TextRules(),  # noqa: B008
    build: BuildOptions = BuildOptions(),  # noqa: B008
) -> None:
    """Make a graph store.

    Args:
        source: an edge list (.csv, .tsv, .txt, .parquet), a matrix (.mtx, SciPy's .npz), a folder of .npy arrays, a
            graph of PyG (.pt), DGL (.bin) or GraphBolt (a folder), GSplit's own .npz, a graph store, ogb:NAME, a
            database of DuckDB or SQLite or postgresql://... with --edges-query, or synthetic:PRESET
            (tiny, small, medium, large, huge; products, papers and amazon, which are like the paper's graphs; mag, of
            several types, like ogbn-mag;
            synthetic:papers?scale=0.05 is one shrunk to 5 percent). KIND:PATH says what a path is: csv, parquet, mtx,
            scipy, numpy, pyg, dgl, graphbolt, ogb-types, npz, duckdb or sqlite.
        out: the folder to write.
        name: what to call the graph; by default the name of the source.
        root: where OGB's datasets are, for ogb:NAME; by default dataset, as for OGB.
        overwrite: replace the folder if it is there.
        add: an edge list, or a database of one. SOURCE is a graph store then, and the new store has all of it, these
            edges and their new vertices; files of features, labels and sets are of the new vertices, or name them,
            and old ones, by id.
    """
    made = make_store(
        source,
        out,
        name=name,
        root=root,
        overwrite=overwrite,
        add=add,
        files=vertices,
        links=links,
        keys=keys,
        ids=ids,
        texts=texts,
        build=build,
    )
    say(f"{out}: {counts(made.graph)}")


def export_(
    path: Annotated[Path, Positional], to: Literal["pyg", "dgl", "npz"], out: Path, overwrite: bool = False
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
    say(f"{out}: written for {to}")


def info(
    path: Annotated[Path, Positional],
    verify: bool = False,
    store_dir: Path | None = None,
    html: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Check a graph store or a layout and print what is in it, and what is odd about it.

    Args:
        path: the folder.
        verify: also compare the checksum of every array.
        store_dir: for a layout, the graph store it should have been made from.
        html: also write it as a page, to this file; it needs no network.
        overwrite: replace the page if it is there.
    """
    if html is not None:
        check_page_free(html, overwrite=overwrite)
    elif overwrite:
        raise InputError("--overwrite is for the page of --html FILE, and there is none")
    is_layout = (path / layout.FILE).is_file()
    if store_dir is not None and not is_layout:
        raise InputError(f"--store-dir is for layouts, and {path} is none")
    opened = (layout.open_layout if is_layout else store.open_store)(path, verify=verify, typed=True)
    if store_dir is not None:
        assert isinstance(opened, layout.Layout)
        if store.open_store(store_dir, typed=True).checksum != opened.store_checksum:
            raise InputError(f"{path} was made from another store than {store_dir}; run gsplit partition again")
    if isinstance(opened.graph, TypedGraph):
        if html is not None:
            raise InputError(f"--html is for graphs of one type, and {path} has several; drop it")
        for line in typed_lines(opened, verified=verify):
            say(for_output(line))
        return
    seen = look(opened)
    for line in lines(seen, verified=verify):
        say(for_output(line))
    if html is not None:
        say(f"\n{html}: {write_page(seen, html, overwrite=overwrite) / 1024:.0f} KiB")


def command(arguments: list[str], prog: str = PROG) -> None:
    """Run ``import``, ``export`` or ``info``; ``prog`` is what complaints call the command."""
    cli.subcommand({"import": import_, "export": export_, "info": info}, arguments, prog=prog, about=__doc__ or "")


if __name__ == "__main__":
    cli.main(command)
