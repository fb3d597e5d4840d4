"""Vertex sets of a store that grows: those of before, and what the files of this step say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gsplit.data.append.growth import Growth, attach_in_order, bare, say_updated
from gsplit.data.append.named_rows import SPLIT_WORDS, Noted, names_vertices
from gsplit.data.graph import VERTEX_SETS
from gsplit.data.importers.vertex_files import VertexFiles, attach
from gsplit.errors import InputError


def grown_sets(growth: Growth, files: VertexFiles) -> dict[str, NDArray[np.int64]]:
    """Vertex sets: those there were, and those of the files; a vertex that a file names leaves the set it was in.

    Args:
        files: with the vertex sets, if there are some.

    Raises:
        InputError: for a vertex that there is not.
    """
    before = {name: growth.graph.vertex_set(name) for name in VERTEX_SETS}
    lists = {name: path for name in VERTEX_SETS if (path := getattr(files, name))}
    if files.split_file is not None and lists:
        raise InputError(f"--split-file gives all vertex sets; drop --{next(iter(lists))}")
    noted = Noted(growth.ids)
    if files.split_file is not None:
        given = _of_split_file(growth, files, noted)
    elif lists:
        given = _of_lists(growth, files, noted)
    else:
        given = {}
    merged = {}
    for name, was in before.items():
        new = given.get(name, was[:0])
        both = np.concatenate([was[~noted.named[was]], new])
        # What ascends stays so: then it does not show in how many steps a store was made.
        merged[name] = np.sort(both) if all((np.diff(part) > 0).all() for part in (was, new)) else both
    moved = [np.setxor1d(merged[name][merged[name] < growth.old], was) for name, was in before.items()]
    path = files.split_file or next(iter(lists.values()), None)
    say_updated(path, len(np.unique(np.concatenate(moved))), "vertices that were there", "change their set")
    return {name: vertices for name, vertices in merged.items() if len(vertices)}


def _of_split_file(growth: Growth, files: VertexFiles, noted: Noted) -> dict[str, NDArray[np.int64]]:
    path = files.split_file
    assert path is not None
    if growth.named or names_vertices(path, files.id_column, SPLIT_WORDS):
        return attach(bare(growth.where), files.only("split_file"), noted).vertex_sets
    found = attach_in_order(growth.where, files, "split_file")
    growth.check_rows(found.num_vertices or 0, path)
    noted.named[growth.old :] = True
    return {name: growth.old + at for name, at in found.vertex_sets.items()}


def _of_lists(growth: Growth, files: VertexFiles, noted: Noted) -> dict[str, NDArray[np.int64]]:
    lists = VertexFiles(train=files.train, valid=files.valid, test=files.test)
    if any(path.suffix != ".npy" for path in lists.given):
        lists = replace(lists, unknown=files.unknown)
    source = bare(growth.where, growth.all)
    given = attach(source, lists, noted if growth.named else None).vertex_sets
    for name, vertices in given.items():
        outside = (vertices < 0) | (vertices >= growth.all)
        if outside.any():
            vertex = vertices[np.argmax(outside)]
            raise InputError(f"{getattr(files, name)}: {vertex} is outside the vertices 0 .. {growth.all - 1}")
        noted.named[vertices] = True
    return given
