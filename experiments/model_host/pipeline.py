"""When mini-batches are sampled, loaded and computed, as the engine overlaps them (gsplit/engine/feed.py).

- Samplers take mini-batches in turn, each samples one at a time, and no more are under way than there are slots.
- A trainer's feed loads a mini-batch once it is sampled, the one before it is loaded, and the trainer has asked for
  the one before it (``--prefetch 1``): while mini-batch i is computed, i + 1 is loaded.
- All trainers compute mini-batch i together, when the last of them has loaded it and i - 1 is done.
"""

from __future__ import annotations

from collections.abc import Sequence

PREFETCH = 1


def steady_seconds(
    samples: Sequence[float],
    loads: Sequence[Sequence[float]],
    computes: Sequence[float],
    *,
    samplers: int,
    averaged: int = 1,
) -> float:
    """Seconds of an epoch after the first, when samplers and feeds are ahead already.

    Args:
        samples: seconds of one sampler for each mini-batch.
        loads: of each mini-batch, seconds of each trainer's feed.
        computes: of each mini-batch, seconds of all trainers together.
        samplers: that take mini-batches in turn.
        averaged: epochs, of which one is longer than another where sampling bounds them.
    """
    n = len(computes)
    before = max(2, -(-slots_of(samplers) // n))  # those that were begun when nothing was under way
    epochs = before + averaged
    ends = end_times([*samples] * epochs, [*loads] * epochs, [*computes] * epochs, samplers=samplers)
    return (ends[-1] - ends[before * n - 1]) / averaged


def slots_of(samplers: int) -> int:
    """The default of --slots."""
    return samplers + PREFETCH + 2


def end_times(
    samples: Sequence[float], loads: Sequence[Sequence[float]], computes: Sequence[float], *, samplers: int
) -> list[float]:
    """When each mini-batch is computed, in seconds from the start; arguments as :func:`steady_seconds`'s."""
    slots = slots_of(samplers)
    free = [0.0] * samplers
    loaded = [0.0] * len(loads[0])
    copied: list[float] = []
    ends: list[float] = []
    for i, (sample, load, compute) in enumerate(zip(samples, loads, computes, strict=True)):
        begun = max(free[i % samplers], copied[i - slots] if i >= slots else 0.0)
        free[i % samplers] = sampled = begun + sample
        asked = ends[i - 1 - PREFETCH] if i > PREFETCH else 0.0
        loaded = [max(sampled, before, asked) + seconds for before, seconds in zip(loaded, load, strict=True)]
        copied.append(max(loaded))
        ends.append(max(copied[i], ends[i - 1] if i else 0.0) + compute)
    return ends
