"""PyG's and DGL's own ways to train to an accuracy: their loaders, their convolutions, the same recipe.

Neighbours have as many trainers as are asked for, of one thread each, under PyTorch's DDP, as in both libraries'
examples. Their examples of subgraphs and of the whole graph have one process: so have these, with as many threads.
Each run has processes of its own. Settings are those that searches of :mod:`experiments.compare` choose on
amazon_computers: glibc keeps memory (:data:`experiments.shared.processes.MEMORY`), PyG's NeighborLoader has two
workers a trainer, DGL's loader none.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from experiments.baselines.pyg_forms import GIVEN, LOADER, forms
from experiments.baselines.stored import write_arrays
from experiments.baselines.workload import Order, Outcome, Setting, Workload
from experiments.shared import processes

LIMIT_S = 600.0
"""Seconds after which a run is given up."""
MEMORY = "kept"


def _loader() -> str | None:
    return "its loader samples by pyg-lib or torch-sparse, and neither is installed" if forms() == (GIVEN,) else None


def _walks() -> str | None:
    return None if find_spec("torch_sparse") else "its random walks are torch-sparse's, which is not installed"


@dataclass(frozen=True, kw_only=True)
class Other:
    """A way of another library."""

    library: str
    """Module that is imported."""
    system: str
    """Key of :data:`experiments.baselines.data_parallel.MODULES`."""
    form: str
    workers: int = 0
    """Processes that sample, of each trainer."""
    subgraphs: bool = False
    """Whether an epoch is cut into the sets of a recipe."""
    distributed: bool = False
    """Whether there is a process for each trainer."""
    lacks: Callable[[], str | None] = lambda: None
    """What it needs beside the library and is missing, in a sentence."""

    def missing(self) -> str | None:
        """Why it cannot run here; None where it can."""
        return self.lacks() if find_spec(self.library) else f"{self.library} is not installed"

    def layout(self, trainers: int) -> str:
        """Processes and threads, in words."""
        return f"{trainers} x 1 thread" if self.distributed else f"1 x {trainers} threads"


PYG, DGL = "torch_geometric", "dgl"
OTHERS = {
    "pyg, neighbours": Other(library=PYG, system="pyg ways", form=LOADER, workers=2, distributed=True, lacks=_loader),
    "pyg, saint": Other(library=PYG, system="pyg ways", form="saint", subgraphs=True, lacks=_walks),
    "pyg, clusters": Other(library=PYG, system="pyg ways", form="clusters", subgraphs=True),
    "pyg, whole graph": Other(library=PYG, system="whole graph", form="pyg-csr"),
    "dgl, neighbours": Other(library=DGL, system="dgl", form="int64 fused", distributed=True),
    "dgl, saint": Other(library=DGL, system="dgl subgraphs", form="saint", subgraphs=True),
    "dgl, clusters": Other(library=DGL, system="dgl subgraphs", form="clusters", subgraphs=True),
    "dgl, whole graph": Other(library=DGL, system="whole graph", form="dgl"),
}
"""By name; what follows the comma is the way."""


def outcome_of(other: Other, workload: Workload, work: Path) -> Outcome:
    """Train in processes of their own, in a folder that is removed.

    Args:
        other: the way.
        workload: of which ``trainers`` and ``threads`` are those of the other system.
        work: holds the folder.

    Raises:
        processes.RunFailed: where it does not end well, or its mini-batches are no samples.
    """
    if other.system == "dgl":
        write_arrays(Path(workload.store), 64)
    with tempfile.TemporaryDirectory(dir=work, prefix=".run-") as temporary:
        folder = Path(temporary).resolve()
        setting = Setting(form=other.form, workers=other.workers)
        Order(system=other.system, workload=workload, setting=setting).write(folder)
        command = [sys.executable, "-m", "experiments.baselines.data_parallel", str(folder)]
        environment = processes.environment(MEMORY, workload.threads)
        processes.run(command, environment, folder, limit_s=LIMIT_S)
        outcome = Outcome.read(folder / "outcome.json")
    if outcome.fault:
        raise processes.RunFailed(f"its mini-batches are no samples: {outcome.fault}")
    return outcome
