"""The collective checker: before a trainer enters a collective it says which, and reads what others posted.

A collective waits for all who take part, so a model that makes an exchange on some trainers only, or one of another
width, would leave the others waiting. Instead, every collective has a number, the same on all trainers: each posts
what its collective of that number is, then compares it with what its peers have posted for theirs. The one that comes
last sees the difference (two at the same time: at least one, ``csrc/board.hpp``), and ends the run with the names of
those who differ. Nothing is sent, nobody waits: it takes a few microseconds.

The checker is memory that all trainers map, with two rows a trainer that only it writes:

| row | collectives | compared with |
|---|---|---|
| 2 * rank | all that it enters | the trainers of its split group |
| 2 * rank + 1 | those of all trainers: sums, the reduction | all trainers |

Split groups may differ in their exchanges, hence the second row. A row is a ring of the last :data:`SLOTS` notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import torch
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.errors import InputError

SLOTS = 1024
"""Notes of a row: how many collectives a trainer may be ahead of another and still be compared with it. A mini-batch
takes dozens, and a trainer is ahead by the few mini-batches at most that a GPU may be behind."""
ROUNDS = (1 << 16) - 1
"""Rounds of the ring are numbered from 1 to this and then from 1 again; 0 is an empty slot."""
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
)
"""Types that a note can name; the code of one is its place, from 1."""
MOST_LAYERS, MOST_WIDTH = (1 << 8) - 1, (1 << 31) - 1
"""The largest layer and width that a note can hold; larger ones are taken for equal."""
ADVICE = (
    "every trainer must make the same exchanges in every mini-batch, with rows of one width and type that want a "
    "gradient everywhere or nowhere, also where it has no edges or targets: move block.exchange out of the condition"
)


class Step(IntEnum):
    """The next collective of a trainer in a mini-batch."""

    EXCHANGE = 1
    """Rows travel to where they are needed, before a layer."""
    RETURN = 2
    """The backward of an exchange, or counts that go the same way."""
    SUM = 3
    """A sum of batch normalisation, over all trainers."""
    SUM_BACKWARD = 4
    """The backward of such a sum."""
    REDUCE = 5
    """The sum of the gradients, which ends a mini-batch in training."""
    END = 6
    """The end of a mini-batch without gradients. It is no collective."""


OF_ALL = (Step.SUM, Step.SUM_BACKWARD, Step.REDUCE, Step.END)
"""Steps that all trainers take together, not a split group alone."""


class CollectiveChecker:
    """One trainer's view of the collective checker; all make their own before any of them enters a collective.

    Args:
        words: zeros uint64 [2 * trainers, SLOTS] that all trainers map.
        rank: of this trainer, among those of its host.
        group: the ranks that it exchanges rows with, its split group.
        first: rank of the first trainer of the host among all, for messages.
    """

    def __init__(self, words: NDArray[np.uint64], rank: int, group: Sequence[int], first: int = 0) -> None:
        trainers = len(words) // 2
        self._words, self._rank, self._first = words, rank, first
        self._group = _Row(2 * rank, [peer for peer in group if peer != rank])
        others = [peer for peer in range(trainers) if peer not in group]
        self._all = _Row(2 * rank + 1, others) if others else None

    @staticmethod
    def shape(trainers: int) -> tuple[int, int]:
        """Shape of the words for that many trainers."""
        return 2 * trainers, SLOTS

    def enter(self, step: Step, *, layer: int = 0, width: int = 0, dtype: torch.dtype | None = None) -> None:
        """Post what this trainer does next, and compare.

        Args:
            step: the kind of collective.
            layer: 1 .. L; 0 where there is none.
            width: numbers a row, or in all.
            dtype: their type.

        Raises:
            InputError: where a peer does something else: the model does not do the same on all trainers.
        """
        kind = _DTYPE_CODES.get(dtype, 0)
        what = min(width, MOST_WIDTH) << 17 | min(layer, MOST_LAYERS) << 9 | kind << 4 | step
        self._post(self._group, what)
        if self._all is not None and step in OF_ALL:
            self._post(self._all, what)

    def _post(self, row: _Row, what: int) -> None:
        turn, slot = divmod(row.count, SLOTS)
        row.count += 1
        note = what << 16 | (turn % ROUNDS + 1)
        if not _core.post(self._words, slot, row.own, note, row.peers):
            raise InputError(self._difference(row, slot, note))

    def _difference(self, row: _Row, slot: int, note: int) -> str:
        """Message that says who does what, of those who have posted their note of this number."""
        does: dict[int, list[int]] = {}
        for at in sorted([row.own, *row.peers.tolist()]):
            theirs = int(self._words[at, slot])
            if (theirs ^ note) & 0xFFFF == 0:
                does.setdefault(theirs >> 16, []).append(self._first + at // 2)
        parts = [f"{_named(ranks)} {_told(what, len(ranks) > 1)}" for what, ranks in does.items()]
        return f"the model does not do the same on all trainers: {', but '.join(parts)}; {ADVICE}"


class _Row:
    """A row that this trainer writes, those it is compared with, and how many notes it has posted."""

    def __init__(self, own: int, peers: Sequence[int]) -> None:
        self.own = own
        self.peers = np.array([2 * peer + own % 2 for peer in peers], np.int64)
        self.count = 0


_DTYPE_CODES: dict[torch.dtype | None, int] = {dtype: code for code, dtype in enumerate(DTYPES, start=1)}


def _named(ranks: Sequence[int]) -> str:
    return f"trainer{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _told(what: int, several: bool) -> str:
    """Return what a note says, as the predicate of one trainer or of several."""
    step, kind, layer, width = Step(what & 0xF), what >> 4 & 0x1F, what >> 9 & 0xFF, what >> 17
    s = "" if several else "s"
    numbers = f"{width} {str(DTYPES[kind - 1]).removeprefix('torch.') if kind else 'number'}"
    of_layer = f" of layer {layer}" if layer else ""
    return {
        Step.EXCHANGE: f"exchange{s} rows{of_layer}, {numbers} each",
        Step.RETURN: f"return{s} gradients of the rows{of_layer}, {numbers} each",
        Step.SUM: f"sum{s} {numbers} in a batch normalisation",
        Step.SUM_BACKWARD: f"sum{s} gradients of {numbers} in a batch normalisation",
        Step.REDUCE: f"end{s} the mini-batch with gradients of {numbers}",
        Step.END: f"end{s} the mini-batch",
    }[step]
