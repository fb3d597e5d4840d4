"""``gsplit.partition``: a layout of a graph, made in a process of its own.

METIS and KaMinPar neither look for signals nor let Python look, so Ctrl-C ends the process that they compute in
(:func:`gsplit.host.interruptible`): here that is not the user's script or notebook, which goes on and tidies up. The
memory that they took goes with it.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from gsplit.config.fields import check_options
from gsplit.config.partition import PartitionConfig
from gsplit.data import Layout, open_layout
from gsplit.data.memory.graphs import as_store
from gsplit.data.memory.temporary import Temporary
from gsplit.errors import InputError, ProcessDied
from gsplit.files import as_path
from gsplit.host import ending_tidily
from gsplit.processes import check_no_trainer
from gsplit.processes.child import death
from gsplit.starting import BAD_INPUT

CALL = "gsplit.partition"
START = (
    "import sys; sys.path[:] = {path}; from gsplit.host import die_with_parent; die_with_parent({parent}); "
    "from gsplit import cli; from gsplit.partition.interface.api import command; cli.main(command)"
)
"""The program of the process that partitions."""
OF_COMMAND = ("store", "out", "parts", "dry_run", "overwrite")
"""Fields of the configuration that are arguments of their own, or for the command alone."""
GRACE_S = 10.0
"""Seconds that the process has to take back what is half written."""

logger = logging.getLogger(__name__)


def partition(
    graph: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    parts: int | None = None,
    overwrite: bool = False,
    **options: Any,
) -> Layout:
    """Partition a graph and relabel it; the result is for ``gsplit.train`` and ``gsplit.predict``.

    Args:
        graph: what :func:`gsplit.data.memory.graphs.from_arrays`, ``from_pyg`` or ``from_dgl`` returned, a graph of
            PyG or DGL itself, or the folder of a graph store.
        out: a folder that keeps the layout. By default it lies in a temporary one, which goes with the layout: when
            it is closed, at the end of a ``with``, when it is garbage, or at exit.
        parts: number of parts, one for each trainer; by default 4, or as many as a partition of your own has.
        overwrite: replace the layout that is in ``out``.
        options: the other fields of :class:`gsplit.config.partition.PartitionConfig`: ``method="metis"``,
            ``"kaminpar"``, ``"streaming"``, ``"auto"`` or ``"deal"``, ``weights="presample"`` with ``fan_out`` and
            ``batch_size``, ``imbalance``, ``cuts``, ``seed``, ``threads`` and so on. ``method`` may also be a
            partition of your own: the part of each vertex, integers [N], or a file with them.

    Returns:
        The layout, opened; ``layout.description["quality"]`` says how good it is (docs/formats.md, "Layout").

    Raises:
        InputError: for what is no graph, more parts than vertices, an ``out`` that exists, a partitioner that is not
            installed or does not fit in memory, no training vertices to sample for, too small a disk.
        gsplit.errors.ProcessDied: where the process that partitions fails.

    Examples:
        >>> layout = gsplit.partition("graph", "halves", parts=2, method="range")
        >>> layout.parts, layout.offsets.tolist()
        (2, [0, 20, 40])
    """
    check_no_trainer(CALL)
    own = ("parts", "out", "overwrite")
    check_options(options, PartitionConfig, where=CALL, beside=own, without=OF_COMMAND)
    # What is wrong with options is found before a graph is written.
    place = Path() if out is None else as_path(out, f"{CALL}(graph, out)", "a folder (and parts=, by name)")
    if not isinstance(options.get("method", ""), (str, os.PathLike)):
        return _of_array(graph, out, parts, overwrite, options)
    asked = PartitionConfig(store=Path(), out=place, parts=parts, **options)
    store = as_store(graph, CALL)
    asked = replace(asked, store=Path(store), overwrite=overwrite)
    if out is not None:
        _run(asked)
        return open_layout(asked.out, typed=True)
    temporary = Temporary()
    try:
        asked = replace(asked, out=temporary.path / "layout")
        _run(asked)
        return replace(open_layout(asked.out, typed=True), temporary=temporary)
    except BaseException:
        temporary.close()
        raise


def _of_array(graph: Any, out: Any, parts: int | None, overwrite: bool, options: dict[str, Any]) -> Layout:
    """A layout by an array with the part of each vertex, which goes through a file."""
    try:
        array = np.asarray(options["method"])
    except (TypeError, ValueError, RuntimeError):  # a list of lists, a tensor of a GPU
        array = np.empty((), object)
    if array.dtype.kind not in "iu":
        raise InputError(f"{CALL}: method is the name of a method, a file, or integers [N], not {array.dtype}")
    temporary = Temporary()
    file = temporary.path / "array.npy"
    try:
        np.save(file, array)
        return partition(graph, out, parts=parts, overwrite=overwrite, **{**options, "method": str(file)})
    except InputError as error:
        raise InputError(str(error).replace(str(file), "method")) from None
    finally:
        temporary.close()


def command(arguments: list[str]) -> None:
    """Partition as the one argument says, a configuration in JSON: what the process of its own does."""
    from gsplit.partition.make import partition

    partition(PartitionConfig(**json.loads(arguments[0])))


def _run(config: PartitionConfig) -> None:
    """Partition in a process of its own, which ends with this one.

    Raises:
        InputError: with the line that it ended with.
        ProcessDied: where it ended in any other way.
    """
    values = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(config).items()}
    code = START.format(path=repr(sys.path), parent=os.getpid())
    with (
        ending_tidily(),
        subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(values)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        try:
            _, printed = process.communicate()
        except BaseException:
            process.terminate()
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    if process.returncode == BAD_INPUT:
        raise InputError(printed.rstrip().rpartition("\n")[2].removeprefix("error: "))
    if process.returncode:
        raise ProcessDied(f"{death('partitioning', process.pid, process.returncode)}\n{printed}".rstrip())
    for line in printed.splitlines():
        level, _, text = line.partition(": ")
        logger.log(logging.WARNING if level == "warning" else logging.INFO, "%s", text or line)
