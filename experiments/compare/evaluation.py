"""One evaluation of all test vertices: exact and sampled, by all trainers, beside DGL and PyG.

    python -m experiments.compare.evaluation STORE LAYOUT

What ScaleGNN's table II compares (arXiv 2604.02651, section VII-B), on one host's CPU: GraphSAGE of three layers, in
turn within each round. *exact* is ``gsplit train --evaluate exact``, the whole graph layer by layer, by all trainers;
*sampled* is ``--evaluate sampled``, drawn neighbours of the test vertices. *dgl* and *pyg* compute the whole graph
layer by layer in one process, as their examples do after training, with a thread for each core; *dgl, sampled* draws
neighbours of the test vertices by its loader. Ratios are of seconds to those of *exact* in the same round. Ours are
``test_seconds`` of a training of one epoch, so processes have started, and so have theirs.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch

from experiments.baselines.dgl_sampling import FORMS
from experiments.baselines.stored import write_arrays
from experiments.baselines.workload import Setting
from experiments.compare.config import CompareConfig
from experiments.shared import processes
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive
from experiments.shared.rounds import cores, in_turn, ratios, seconds_of, spread
from gsplit import cli
from gsplit.config.flags import Positional
from gsplit.data import open_layout, open_store
from gsplit.errors import InputError
from gsplit.host import keep_freed_memory

EXACT = "exact"
LIMIT_S = 1800


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Flags):
    """One evaluation of all test vertices, beside DGL and PyG."""

    store: Annotated[Path, Positional]
    """Folder of a graph store."""
    layout: Annotated[Path, Positional]
    """Folder of a layout of it, with a part for each trainer."""
    hidden: Positive = 128
    """Width of the hidden layers."""
    fan_out: FanOut = (15, 10, 5)
    """Neighbours at each hop, where they are sampled."""
    batch_size: Positive = 4096
    """Vertices of a mini-batch, where neighbours are sampled."""
    rounds: Positive = 5
    """Rounds, in each of which every way evaluates once."""


def measure(config: EvaluationConfig) -> dict[str, Any]:
    """The table of ``--json``."""
    layout, store = open_layout(config.layout), open_store(config.store)
    if layout.store_checksum != store.checksum:
        raise InputError(f"{config.layout} is no layout of {config.store}")
    if not len(store.graph.test_idx):
        raise InputError(f"{config.store} has no test vertices to evaluate")
    keep_freed_memory()
    torch.set_num_threads(cores())
    ways = ways_of(config)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(config.rounds):
        for way in in_turn(ways, number):
            seconds[way].append(ways[way]())
    others = {way: ratios(taken, seconds[EXACT]) for way, taken in seconds.items() if way != EXACT}
    return {"evaluations": [{"way": way, "over": EXACT, **spread(found)} for way, found in others.items()]}


def ways_of(config: EvaluationConfig) -> dict[str, Callable[[], float]]:
    """What gives the seconds of an evaluation, by name."""
    from experiments.baselines.dgl_training import DGLTraining  # each needs its library
    from experiments.baselines.pyg_training import PyGTraining

    same = CompareConfig(
        hidden=config.hidden, fan_out=config.fan_out, batch_size=config.batch_size, gpus=1, dropout=0.0
    )
    workload = same.workload(config.store)
    form = next(form for form in FORMS if form.bits == 32 and form.fused)
    write_arrays(config.store, form.bits)
    dgl, pyg = DGLTraining(workload, Setting(form=form.name), 0), PyGTraining(workload, 0)

    def without_grad(work: Callable[..., Any], *arguments: Any) -> float:
        with torch.no_grad():
            return seconds_of(work, *arguments)

    return {
        EXACT: lambda: trained(config, "exact"),
        "sampled": lambda: trained(config, "sampled"),
        "dgl": lambda: without_grad(dgl.logits),
        "dgl, sampled": lambda: without_grad(dgl.sampled_logits, "test"),
        "pyg": lambda: without_grad(pyg.logits),
    }


def trained(config: EvaluationConfig, evaluate: str) -> float:
    """Seconds in which the trainers of a run evaluate the test vertices."""
    flags = {
        "gpus": open_layout(config.layout).parts,
        "device": "cpu",
        "threads": 1,
        "hidden": config.hidden,
        "fan_out": ",".join(map(str, config.fan_out)),
        "batch_size": config.batch_size,
        "epochs": 1,
        "evaluate": evaluate,
        "checkpoint_every": 0,
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        command = processes.train_command(config.layout, folder / "run", flags)
        processes.run(command, processes.environment("as it comes", 1), folder, limit_s=LIMIT_S)
        return float(json.loads((folder / "run" / "summary.json").read_text())["test_seconds"])


command = Experiment("compare.evaluation", EvaluationConfig, measure)

if __name__ == "__main__":
    cli.main(command)
