"""``python -m gsplit.doctor [LAYOUT] [flags of gsplit train] [--json]``."""

from __future__ import annotations

from dataclasses import dataclass, fields

from gsplit import cli
from gsplit.config.train import ELSEWHERE, TrainConfig
from gsplit.errors import InputError
from gsplit.hosts import Place, place_of

PROG = "python -m gsplit.doctor"


@dataclass(frozen=True, kw_only=True)
class DoctorConfig(TrainConfig):
    """Say what this host has: accelerators, memory, limits, versions; and what would keep training from working.

    With a LAYOUT and the flags of gsplit train it also says what that training would take, beside what there is, and
    whether it fits. Started once for each trainer, as by torchrun, it says how hosts reach each other, and whether
    they have the same LAYOUT. Nothing is trained or written. The exit code is 0 when all is well, 2 when something is
    not.
    """

    json: bool = False
    """Print JSON in place of text (docs/formats.md)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resume is not None:
            raise InputError(f"--resume {self.resume}: doctor takes a LAYOUT and the flags of a training")

    @property
    def training(self) -> TrainConfig:
        """The flags of the training alone."""
        return TrainConfig(**{field.name: getattr(self, field.name) for field in fields(TrainConfig)})


def command(arguments: list[str], prog: str = PROG) -> None:
    """Print the diagnosis; ``prog`` is what complaints call the command.

    Raises:
        InputError: with what would keep training from working, after all the rest was printed.
    """
    config = cli.parse(DoctorConfig, arguments, prog=prog, answers=ELSEWHERE, needs=["gsplit.doctor.diagnosis"])
    place = place_of()
    if place is not None and place.world > 1:
        _examine_places(place, config)
        return
    from gsplit.doctor.diagnosis import examine
    from gsplit.doctor.diagnosis_text import as_json, lines
    from gsplit.terminal import say

    found = examine(config.training)
    say(as_json(found) if config.json else "\n".join(lines(found)))
    if found.problems:
        raise InputError("; ".join(found.problems))


def _examine_places(place: Place, config: DoctorConfig) -> None:
    """Print how hosts reach each other; on a mistake one trainer of each host says it."""
    from gsplit.doctor.places import examine_places
    from gsplit.terminal import say

    lines = examine_places(place, config.layout, config.silence)
    if lines is not None:
        say("\n".join(lines))


if __name__ == "__main__":
    cli.main(command)
