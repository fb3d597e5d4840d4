"""Memory that all trainers of a run map."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

from gsplit.host import SharedBuffer
from gsplit.parallel.mailboxes import TURNS


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Memory that all processes of a run share, empty until a trainer needs it; pickles only while one is spawned."""

    levels: tuple[SharedBuffer, SharedBuffer]
    """Two buffers that exact evaluation uses in turn."""
    features: SharedBuffer
    """A copy of the feature rows, where one is made; or rows that are trained."""
    caches: tuple[SharedBuffer, ...]
    """Cache of each trainer, where they read each other's on the CPU."""
    checker: SharedBuffer
    """The collective checker of the trainers (:mod:`gsplit.parallel.checker`)."""
    mail: tuple[tuple[SharedBuffer, ...], ...]
    """What trainers on the CPU send each other (:mod:`gsplit.parallel.mailboxes`): a header, and two pieces each."""
    sums: tuple[tuple[SharedBuffer, ...], ...]
    """The same again for gradients that they add up."""
    rows: tuple[SharedBuffer, SharedBuffer]
    """Two buffers for rows of the whole graph, in turn (:mod:`gsplit.full.common_rows`)."""
    stop: SharedBuffer
    """Empty until the run is asked to stop, which trainers that evaluate look for (:func:`Shared.ask_to_stop`)."""

    @classmethod
    def create(cls, trainers: int) -> Shared:
        """Buffers for so many trainers, which take no memory yet.

        Raises:
            OSError: where the system gives fewer; none is left then.
        """
        with ExitStack() as made:

            def new(name: str) -> SharedBuffer:
                return made.enter_context(closing(SharedBuffer(name)))

            shared = cls(
                levels=(new("gsplit-level-even"), new("gsplit-level-odd")),
                features=new("gsplit-features"),
                caches=tuple(new(f"gsplit-cache-{rank}") for rank in range(trainers)),
                checker=new("gsplit-checker"),
                mail=_mail("gsplit-mail", trainers, new),
                sums=_mail("gsplit-sums", trainers, new),
                rows=(new("gsplit-rows-even"), new("gsplit-rows-odd")),
                stop=new("gsplit-stop"),
            )
            made.pop_all()
        return shared

    def buffers(self) -> Iterator[SharedBuffer]:
        """All of them; each is an open file."""
        mail = (buffer for buffers in (*self.mail, *self.sums) for buffer in buffers)
        yield from (*self.levels, self.features, *self.caches, self.checker, *mail, *self.rows, self.stop)

    def ask_to_stop(self) -> None:
        """Have trainers that evaluate leave off."""
        os.ftruncate(self.stop.fileno(), 1)

    def asked_to_stop(self) -> bool:
        """Return whether somebody has called :meth:`ask_to_stop`."""
        return self.stop.num_bytes > 0

    def close(self) -> None:
        """Let go of all buffers."""
        for buffer in self.buffers():
            buffer.close()


def _mail(name: str, trainers: int, new: Callable[[str], SharedBuffer]) -> tuple[tuple[SharedBuffer, ...], ...]:
    """Memory for the mailboxes of so many trainers."""
    pieces = (tuple(new(f"{name}-{rank}") for _ in range(TURNS)) for rank in range(trainers))
    return (new(name),), *pieces
