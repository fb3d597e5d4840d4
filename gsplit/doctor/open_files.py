"""How many files a run has open at once in one process: the launcher, which has an end of every pipe."""

from __future__ import annotations

from contextlib import closing

from gsplit.engine.rows.shared import Shared

OF_A_PROCESS = 64
"""Files that the interpreter, its libraries, the layout and a driver have open."""
PIPES_OF_A_TRAINER = 6
"""Ends of pipes that the launcher has of a trainer while it starts: two told, two released, its report and parcel."""
PIPES_OF_A_SAMPLER = 4
"""Ends of pipes of a sampler while it starts: two for commands, two for reports."""


def most_open(trainers: int, samplers: int, slots: int) -> int:
    """Number of files that a run of so many trainers and samplers has open in one process at most.

    Raises:
        OSError: where not even the common memory of two trainers may be opened.
    """
    one, two = _together(1), _together(2)  # each further trainer has as many; all may be more than can be opened
    together = one + (trainers - 1) * (two - one)
    return OF_A_PROCESS + together + slots + PIPES_OF_A_TRAINER * trainers + PIPES_OF_A_SAMPLER * samplers


def _together(trainers: int) -> int:
    with closing(Shared.create(trainers)) as shared:
        return sum(1 for _ in shared.buffers())
