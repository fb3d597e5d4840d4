"""Memory of a training step on the CPU beside what its dry run says, in float32 and in mixed precision.

    python -m experiments.micro.step_memory LAYOUT --hidden 256

Each precision is a run of real trainers, which go through an epoch in a loop of their own; each step is in a profile
of PyTorch's, whose allocator reports every tensor that it makes and frees. What a step had at most beside what was
there before it, over all steps and trainers, are its activations (and gradients), and is compared with what the dry
run says of them: that counts in another way, operation by operation, and in one process
(:mod:`gsplit.engine.dry.live_bytes`). Memory that the core takes while it computes is in neither.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import gsplit
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive
from experiments.shared.results import write_json
from gsplit import cli
from gsplit.config.flags import Positional
from gsplit.config.train import TrainConfig
from gsplit.data import open_layout
from gsplit.engine.sampled import Sampled
from gsplit.files import read_json
from gsplit.launch.resolve import resolve
from gsplit.launch.start import QUIET
from gsplit.train.own_loop import Loop

MEMORY = "[memory]"
"""Name of the events of a trace that say what was taken, or given back."""


@dataclass(frozen=True, kw_only=True)
class StepMemoryConfig(Flags):
    """Memory of a training step beside what its dry run says."""

    layout: Annotated[Path, Positional]
    """Folder of a layout; as many trainers as it has parts."""
    precisions: tuple[Literal["32", "bf16-mixed"], ...] = ("32", "bf16-mixed")
    """As gsplit train --precision; ratios are to the first."""
    model: Literal["sage", "gcn", "gat"] = "sage"
    """As gsplit train --model."""
    hidden: Positive = 256
    """Width of the hidden layers."""
    fan_out: FanOut = (15, 10, 5)
    """Neighbours at each hop."""
    batch_size: Positive = 4096
    """Targets of a mini-batch of all trainers."""


def taken_of(events: Iterable[dict[str, Any]]) -> int:
    """The most bytes of the host's that a trace has taken and not given back, of what it has seen taken."""
    seen = sorted((event for event in events if event["name"] == MEMORY), key=lambda event: event["ts"])
    now = most = 0
    for event in seen:
        now += event["args"]["Bytes"]
        most = max(most, now)
    return most


@contextmanager
def profiled(peaks: list[int]) -> Iterator[None]:
    """Append the most that this thread takes in the block."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiling:
            yield
        profiling.export_chrome_trace(str(trace))
        peaks.append(taken_of(read_json(trace)["traceEvents"]))


def loop(run: Loop) -> None:
    """Train as the engine does, each step in a profile; its peaks go into the run's folder, a file a trainer."""
    peaks: list[int] = []
    for batch in run:
        with profiled(peaks):
            logits = run.model(batch.blocks, batch.x)
            run.backward(F.cross_entropy(logits.float(), batch.labels, reduction="sum"))
            del logits
            run.step()
    assert run.config.out is not None
    write_json(run.config.out / f"peaks.{run.rank}.json", {"bytes": peaks})


def measure(config: StepMemoryConfig) -> list[dict[str, Any]]:
    """A row for each precision."""
    layout = open_layout(config.layout)
    found: list[dict[str, Any]] = []
    for precision in config.precisions:
        with tempfile.TemporaryDirectory() as folder:
            asked = TrainConfig(
                layout=layout.path,
                out=Path(folder) / "run",
                device="cpu",
                model=config.model,
                hidden=config.hidden,
                fan_out=config.fan_out,
                batch_size=config.batch_size,
                precision=precision,
                epochs=1,
                evaluate="none",
            )
            predicted = Sampled().host_step_bytes(resolve(asked))
            assert predicted is not None
            with gsplit.train(config=asked, loop=loop):
                files = sorted((Path(folder) / "run").glob("peaks.*.json"))
                most = max(max(read_json(file)["bytes"]) for file in files)
        first = found[0]["activation_bytes"] if found else most
        found.append(
            {
                "model": config.model,
                "hidden": config.hidden,
                "precision": precision,
                "trainers": len(files),
                "activation_bytes": most,
                "over_first": round(most / first, 3),
                "predicted_bytes": predicted.activations,
                "predicted_over_measured": round(predicted.activations / most, 3),
            }
        )
    return found


command = Experiment("micro.step_memory", StepMemoryConfig, measure)

if __name__ == "__main__":
    os.environ.update(QUIET)
    cli.main(command)
