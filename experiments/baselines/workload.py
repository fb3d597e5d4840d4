"""What every system of a comparison trains, with which setting, and what an epoch took: plain data, kept as JSON.

Stages of an epoch, in seconds on the way that a trainer goes, mean of the trainers:

- *sampling* and *loading*: a mini-batch is drawn, its feature rows are gathered, and nothing else goes on meanwhile.
- *computing*: forward, backward and the step of the optimiser; with split parallelism the exchanges as well.
- *reducing*: gradients are summed over the trainers, and whoever is done first waits for the others.
- *waiting*: for a mini-batch that other processes or threads prepare.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

STAGES = ("sampling", "loading", "computing", "reducing", "waiting")


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is trained: the same for all systems."""

    store: str
    """Folder of the graph store; ids are global."""
    model: str
    """``sage``, ``gat`` or ``gcn``."""
    hidden: int
    """Width of the hidden layers, all heads together."""
    heads: int
    """Heads of the hidden layers of ``gat``; the last layer has one."""
    fan_out: tuple[int, ...]
    """Neighbours drawn by hop, the first for the targets."""
    batch_size: int
    """Targets of a mini-batch, over all trainers."""
    epochs: int
    trainers: int
    threads: int
    """Threads of each trainer."""
    lr: float
    dropout: float
    seed: int
    weight_decay: float = 0.0
    input_dropout: float = 0.0
    normalize_features: bool = False
    """Divide each feature row by its sum, as ``gsplit train --normalize-features``."""
    sets: int = 0
    """Subgraphs of an epoch, of those who train on subgraphs."""
    layout: str = ""
    """Folder of a layout of the graph whose parts are the clusters, of those who train on clusters."""
    validate_every: int = 0
    """Take the accuracy on the validation and test vertices after every so many epochs and after the last one,
    outside what is timed; 0 never."""
    limit_s: float | None = None
    """Seconds of training after which no epoch begins; None: there are all."""
    check: bool = False
    """Look at the blocks of the first mini-batches before training, and train nothing where they are wrong."""
    precision: str = "32"
    """As ``gsplit train --precision``; with bf16-mixed others compute under PyTorch's autocast, on features in
    bfloat16."""

    @property
    def mixed(self) -> bool:
        """Whether rows are bfloat16."""
        return self.precision == "bf16-mixed"

    @property
    def share(self) -> int:
        """Targets of one trainer's micro-batch."""
        return self.batch_size // self.trainers

    def ends_after(self, epochs: Sequence[Epoch]) -> bool:
        """Whether these epochs are all."""
        late = self.limit_s is not None and sum(epoch.seconds for epoch in epochs) >= self.limit_s
        return late or len(epochs) >= self.epochs

    def validates_after(self, epochs: Sequence[Epoch]) -> bool:
        """Whether accuracies are taken after these epochs."""
        every = self.validate_every
        return every > 0 and (len(epochs) % every == 0 or self.ends_after(epochs))


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is chosen for each system by a search."""

    memory: str = "as it comes"
    """A key of :data:`experiments.shared.processes.MEMORY`."""
    workers: int = 0
    """Processes that sample: a DataLoader's for each trainer, or samplers of all trainers."""
    form: str = ""
    """Form of the sampler or of the step, where the system has several."""

    @property
    def name(self) -> str:
        return ", ".join([f"memory {self.memory}", f"workers {self.workers}", *([self.form] if self.form else [])])


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """What one epoch took."""

    seconds: float
    stages: dict[str, float]
    """Seconds by the names of ``STAGES``."""
    hidden: dict[str, float] = field(default_factory=dict)
    """Seconds of stages that other processes or threads spent meanwhile."""
    edges: int
    """Edges computed, all layers and trainers; so are the other counts."""
    input_rows: int
    loaded_bytes: int
    """Bytes of feature rows that trainers took from the host."""
    exchanged_bytes: int = 0
    reduced_bytes: int
    loss: float | None
    valid_accuracy: float | None = None
    test_accuracy: float | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run of a system gave."""

    epochs: list[Epoch] = field(default_factory=list)
    fault: str | None = None
    """What is wrong with its blocks; nothing was trained then."""

    @classmethod
    def read(cls, path: Path) -> Outcome:
        values = json.loads(path.read_text())
        return cls(epochs=[Epoch(**epoch) for epoch in values["epochs"]], fault=values["fault"])

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


@dataclass(frozen=True, kw_only=True)
class Order:
    """What the processes of a baseline are told: ``FOLDER/order.json``."""

    system: str
    workload: Workload
    setting: Setting

    @classmethod
    def read(cls, folder: Path) -> Order:
        values: dict[str, Any] = json.loads((folder / "order.json").read_text())
        workload = values["workload"]
        workload["fan_out"] = tuple(workload["fan_out"])
        return cls(system=values["system"], workload=Workload(**workload), setting=Setting(**values["setting"]))

    def write(self, folder: Path) -> None:
        (folder / "order.json").write_text(json.dumps(asdict(self), indent=1) + "\n")
