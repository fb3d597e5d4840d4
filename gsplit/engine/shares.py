"""What a run says at its start: how large a mini-batch is over all trainers, and what each trainer has of it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gsplit.config.parallel import STRATEGIES
from gsplit.config.sampling import SUBGRAPHS
from gsplit.data import Layout, first_parts
from gsplit.engine.engines import engine_of
from gsplit.engine.own_ranges import bounds_of
from gsplit.engine.run import Run
from gsplit.sampling import split_offsets
from gsplit.sampling.links import TrainingPairs

MOST_LISTED = 8
"""Numbers that are listed one by one; of more the least and the largest are named."""


def shares(run: Run, layout: Layout) -> str | None:
    """The line on a run's mini-batches; None where an engine of the user's makes them."""
    config, train_idx, trainers = run.config, layout.graph.train_idx, run.trainers
    if config.strategy not in STRATEGIES:
        return None
    together = f"{trainers} trainers together" if trainers > 1 else "one trainer"
    if config.task == "links":
        number = TrainingPairs(layout, edges=config.pairs == "edges").number
        pairs = min(config.batch_size, config.epoch_pairs or number, number)
        return f"a mini-batch has {pairs:,} pairs, of {together} (--batch-size {config.batch_size}, over all)"
    if config.strategy == "full":
        own = np.histogram(train_idx, bounds_of(layout, trainers))[0]
        return f"an epoch is one step on {len(train_idx):,} training vertices, of {together}{_each(own)}"
    targets = float(min(config.batch_size, len(train_idx)))
    named, about = f" (--batch-size {config.batch_size}, over all, not per GPU)", ""
    if config.sampling in SUBGRAPHS:
        targets, named = len(train_idx) / engine_of(config).num_batches(run, layout), ""
        about = "about "
    splits, micro = run.strategy.splits, run.strategy.micro_batches
    # On a grid nothing asks for whole parts.
    offsets = split_offsets(layout, splits) if config.grid is None else bounds_of(layout, splits)
    offsets = offsets[layout.graph.target] if layout.graph.schema.is_typed else offsets  # those of the targets
    own = np.histogram(train_idx, offsets)[0] / len(train_idx) * targets / micro
    line = (
        f"a mini-batch has {about}{targets:,.0f} targets, of {together}{named}{_each(np.tile(own, micro), 'about ')}"
    )
    if layout.parts % splits and config.grid is None:
        dealt, vertices = np.diff(first_parts(layout.parts, splits)), np.diff(offsets)
        line += (
            f"; the {layout.parts} parts are dealt out {_listed(f'{number}' for number in dealt)}, with "
            f"{_listed(f'{number:.2f}' for number in vertices / vertices.mean())} of the mean number of vertices"
        )
    return line


def _each(own: np.ndarray, about: str = "") -> str:
    if len(own) == 1:
        return ""
    if len(own) > MOST_LISTED or own.max() - own.min() < 1:
        least, most = f"{own.min():,.0f}", f"{own.max():,.0f}"
        return f": {about}{least} each" if least == most else f": {about}{least} to {most} each"
    return f": {about}{_listed(f'{number:,.0f}' for number in own)}"


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    if len(others) >= MOST_LISTED:
        ordered = sorted([*others, last], key=float)
        return f"{ordered[0]} to {ordered[-1]}"
    return f"{', '.join(others)} and {last}"
