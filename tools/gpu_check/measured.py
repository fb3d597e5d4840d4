"""What a measuring module of the check prints: a line of JSON, which :meth:`Place.measured` reads."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import torch

from gsplit import cli
from gsplit.device import accelerator
from gsplit.device.failures import refused_by_device
from gsplit.errors import InputError

TIMES = 7
"""How often a copy is timed; the least time counts."""


@dataclass(kw_only=True)
class Measured:
    """What was found."""

    line: str = ""
    """For the table of parts."""
    wrong: str = ""
    """What is wrong with the machine, in a line; empty where nothing is."""
    rates: list[tuple[str, float, str, float | None]] = field(default_factory=list)
    """What was moved, at how many GB a second, what its floor is, and the floor's rate; without one it is the rate of
    that name."""
    memory: list[tuple[str, str]] = field(default_factory=list)
    """What of a GPU is taken when, and how much."""


def print_measured(measure: Callable[[str, int, int], Measured]) -> None:
    """Call ``measure(kind, gpus, MiB)`` by the flags of this program and print what it found.

    What a device refuses is one line and exit code 2.
    """

    def command(arguments: list[str]) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", required=True)
        parser.add_argument("--gpus", type=int, required=True)
        parser.add_argument("--mib", type=int, required=True)
        flags = parser.parse_args(arguments)
        try:
            found = measure(flags.device, flags.gpus, flags.mib)
        except RuntimeError as error:
            if (line := refused_by_device(error)) is None:
                raise
            raise InputError(line) from None
        print(json.dumps(asdict(found)))

    cli.main(command)


def devices_of(kind: str, gpus: int) -> list[torch.device]:
    """The first so many devices of a type; the host's, so many times."""
    return [torch.device(kind, i) if kind != accelerator.HOST else torch.device(kind) for i in range(gpus)]
