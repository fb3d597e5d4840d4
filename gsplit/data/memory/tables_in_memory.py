"""The store of data frames, and of the arrays beside them: the one that their tables in Parquet files make."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from typing import Any

from gsplit.config.fields import check_options
from gsplit.data.api import check_name, kept_store, options_of
from gsplit.data.build import fill_store
from gsplit.data.build_options import BuildOptions
from gsplit.data.folders import FolderWriter
from gsplit.data.graph import VERTEX_SETS
from gsplit.data.importers.attached.link_files import LinkFiles
from gsplit.data.importers.attached.vertex_files import VertexFiles
from gsplit.data.importers.frames import IdNames, check_edge_order, given_file, is_frame, set_file
from gsplit.data.importers.in_memory import arrays_source
from gsplit.data.importers.keys import Keys
from gsplit.data.importers.named_edges import IdOptions
from gsplit.data.importers.source import GraphSource
from gsplit.data.importers.tables.databases import Queries
from gsplit.data.importers.tables.table_files import TableFile
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.data.inputs import open_inputs
from gsplit.data.store import GraphStore
from gsplit.errors import InputError

FIELDS = {"x": "features", "y": "labels", "split_file": "split_file", **{name: name for name in VERTEX_SETS}}
"""Arguments of :func:`from_arrays` that may be tables, each with its field of VertexFiles."""
WITHOUT = ("features", "labels", *VERTEX_SETS, "num_vertices", "quote", "header", *(f.name for f in fields(Queries)))
"""Fields of options that have arguments of their own, or none, and those of text."""


def store_of_tables(
    edge_index: Any,
    others: dict[str, Any],
    links: dict[str, Any],
    named: IdNames,
    *,
    edge_weight: Any,
    num_vertices: int | None,
    num_classes: int | None,
    name: str,
    where: str,
    out: str | os.PathLike[str] | None,
    overwrite: bool,
    options: dict[str, Any],
) -> GraphStore:
    """The store of tables, and of the arrays beside them; ``others`` are arguments by their keys in ``FIELDS``."""
    asked = {key: value for key, value in options.items() if key != "split_file" or not is_frame(value)}
    check_options(asked, VertexFiles, IdOptions, TextRules, BuildOptions, where=where, without=WITHOUT)
    check_name(name, where)
    build = options_of(BuildOptions, {**asked, "num_vertices": num_vertices})
    ids, texts = options_of(IdOptions, asked), options_of(TextRules, asked)

    if links.pop("train_weights") is not None:
        raise InputError(f"{where}: train_weights are for arrays alone; give the table train_edges a column weight")

    def fill(writer: FolderWriter) -> None:
        folder = writer.path.parent
        kept = {key: value for key, value in others.items() if is_frame(value)}
        if is_frame(edge_index):
            if edge_weight is not None:
                raise InputError(
                    f"{where}: edge_weight is for arrays of edges; give the table a column called weight"
                )
            kept |= {key: value for key, value in others.items() if value is not None and key != "split_file"}
            source: TableFile | GraphSource = given_file(edge_index, folder, f"{where}: edge_index", None)
        else:
            arrays = {key: None if key in kept else value for key, value in others.items()}
            check_edge_order(edge_index, edge_weight, where)
            source = arrays_source(
                edge_index,
                arrays["x"],
                arrays["y"],
                edge_weight=edge_weight,
                vertex_sets={key: arrays[key] for key in VERTEX_SETS},
                num_vertices=num_vertices,
                num_classes=num_classes,
                name=name,
                where=where,
            )
        paths = {
            FIELDS[key]: (set_file if key in VERTEX_SETS else given_file)(value, folder, f"{where}: {key}", named)
            for key, value in kept.items()
        }
        files = options_of(VertexFiles, {**asked, **paths})
        given = {key: value for key, value in links.items() if value is not None}
        pairs = {key: given_file(value, folder, f"{where}: {key}", None) for key, value in given.items()}
        found, made = open_inputs(
            source, files=files, keys=Keys(), ids=ids, build=build, folder=folder, links=LinkFiles(**pairs)
        )
        if num_classes is not None:
            found = replace(found, num_classes=num_classes)
        fill_store(writer, found, made, name=name, described_as=where)

    with texts.applied():
        return kept_store(fill, where, out, overwrite)
