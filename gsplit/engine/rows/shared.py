"""Memory that all trainers of a run map."""

from __future__ import annotations

from dataclasses import dataclass

from gsplit.host import SharedBuffer


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Memory that all processes of a run share, empty until a trainer needs it; pickles only while one is spawned."""

    levels: tuple[SharedBuffer, SharedBuffer]
    """Two buffers that exact evaluation uses in turn."""
    features: SharedBuffer
    """A copy of the feature rows, where one is made; or rows that are trained."""
    caches: tuple[SharedBuffer, ...]
    """Cache of each trainer, where they read each other's on the CPU."""
    board: SharedBuffer
    """The notice board of the trainers (:mod:`gsplit.parallel.board`)."""
    rows: tuple[SharedBuffer, SharedBuffer]
    """Two buffers for rows of the whole graph, in turn (:mod:`gsplit.full.common_rows`)."""

    @classmethod
    def create(cls, trainers: int) -> Shared:
        """Buffers for so many trainers, which take no memory yet."""
        return cls(
            levels=(SharedBuffer("gsplit-level-even"), SharedBuffer("gsplit-level-odd")),
            features=SharedBuffer("gsplit-features"),
            caches=tuple(SharedBuffer(f"gsplit-cache-{rank}") for rank in range(trainers)),
            board=SharedBuffer("gsplit-board"),
            rows=(SharedBuffer("gsplit-rows-even"), SharedBuffer("gsplit-rows-odd")),
        )

    def close(self) -> None:
        """Let go of all buffers."""
        for buffer in (*self.levels, self.features, *self.caches, self.board, *self.rows):
            buffer.close()
