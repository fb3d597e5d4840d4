"""A trainer that looks at its own memory: before and after loading, and at the end of the run."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.shared.peak import Peak
from gsplit.engine.rows.shared import Shared
from gsplit.engine.run import Run
from gsplit.full.edge_shares import EdgeShare
from gsplit.kernels import Edges
from gsplit.limits import private_bytes
from gsplit.nn import Block
from gsplit.parallel.collectives import all_gather_object
from gsplit.parallel.join import joined
from gsplit.supply.pipes import TrainerEnd
from gsplit.train.loop import train
from gsplit.train.summary import finish
from gsplit.train.trainer import Trainer

PLAIN = (str, bytes, int, float, bool, type(None), torch.dtype, torch.device, torch.Size, type, Path)


def mapped_bytes(folder: Path) -> int:
    """Bytes of the files of a folder that this process has looked at, in pages that it still maps."""
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        fields = line.split()
        if "-" in fields[0] and not fields[0].endswith(":"):
            counts = len(fields) > 5 and fields[5].startswith(str(folder.resolve()))
        elif counts and fields[0] == "Rss:":
            total += int(fields[1]) << 10
    return total


def held(root: Any) -> tuple[int, int]:
    """Bytes of the tensors and arrays in memory that an object leads to, each once; of these, of edges."""
    everything: dict[int, int] = {}
    of_edges: dict[int, int] = {}
    for value, edges in _reached(root, edges=False, seen=set()):
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            at, size = storage.data_ptr(), storage.nbytes()
        else:
            at, size = value.__array_interface__["data"][0], value.nbytes
        everything[at] = max(size, everything.get(at, 0))
        if edges:
            of_edges[at] = everything[at]
    return sum(everything.values()), sum(of_edges.values())


def _reached(value: Any, *, edges: bool, seen: set[int]) -> Iterator[tuple[Any, bool]]:
    if isinstance(value, PLAIN) or id(value) in seen or isinstance(value, types.ModuleType | np.memmap):
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor | np.ndarray):
        if not isinstance(getattr(value, "base", None), np.memmap):
            yield value, edges
        return
    inner: list[Any] = []
    if isinstance(value, Edges | Block | EdgeShare):
        for of_edges in (value.indices, getattr(value, "order", None)):
            yield from _reached(of_edges, edges=True, seen=seen)
    if isinstance(value, dict):
        inner += value.values()
    elif isinstance(value, list | tuple | set):
        inner += value
    elif isinstance(value, types.MethodType):
        inner += [value.__self__]
    elif isinstance(value, types.FunctionType):
        inner += [cell.cell_contents for cell in value.__closure__ or ()]
    else:
        inner += vars(value).values() if hasattr(value, "__dict__") else ()
    for one in inner:
        yield from _reached(one, edges=False, seen=seen)


def probed(rank: int, run: Run, port: int, shared: Shared, end: TrainerEnd) -> dict[str, Any]:
    """The life of one trainer process, as :func:`gsplit.train.loop.live`; trainer 0 returns what all have seen."""
    config = run.config
    with joined(rank, run.trainers, port, config.device, config.threads) as member:
        started = private_bytes()
        trainer = Trainer(member, run, shared)
        before = private_bytes()
        with Peak() as begun:
            trainer.begin(end)
        loaded = private_bytes()
        batches: Any = trainer.feed.gi_frame.f_locals["batches"]  # type: ignore[attr-defined]
        stays, of_edges = held({name: value for name, value in vars(batches).items() if name != "_parts"})
        seen = {
            "started_bytes": started,
            "before_bytes": before,
            "held_bytes": stays,
            "edge_bytes": of_edges,
            "edges": sum(batches.edges.values()),
            "beyond_bytes": loaded - before - stays,
            "read_bytes": mapped_bytes(run.layout),
        }
        with Peak() as trained:
            assert train(trainer)
        with Peak() as evaluated:
            finish(trainer)
        trainer.close()
        seen["trained_bytes"] = trained.num_bytes
        seen["peak_bytes"] = max(loaded, begun.num_bytes, trained.num_bytes, evaluated.num_bytes)
        everyone: list[dict[str, int]] = all_gather_object(seen, member.group)
        return {"trainers": everyone}
