"""Kernels that read the host's rows leave the device to others: exchanges begin when they are ready.

An epoch is trained on simulated devices, and what their streams were given is laid out on the slots of a GPU, in
virtual time (tests/simulator/simulated/occupancy.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from unittest import mock

import pytest
import torch
from support.graphs import lay_out, random_graph
from support.runs import config_for, train_in_trainer

from gsplit.device import accelerator
from gsplit.engine.feed import MOST_BEGUN, Feed

pytestmark = [pytest.mark.accelerator, pytest.mark.slow]

SLOTS = 132
"""Multiprocessors of an H100."""
STREAMS = 33
PREFETCH = 1
EXCHANGE_BLOCKS = 16
LOADING = 5
"""Times as long as computing."""
LATE_SHARE = 0.02
"""Of an epoch, by which an exchange, and what is computed for it, may begin after it is ready."""


@dataclass(kw_only=True)
class Given:
    """What the streams of a trainer's device were given in an epoch, and by what the host was held up meanwhile."""

    device: int
    noted: list[str]
    before: dict[int, int]
    """How many tasks each stream had had."""
    launches: list[tuple[int, int]]
    """Programs and rows of each kernel that reads rows."""
    feed: int
    """The feed's stream."""
    loaded: list[int]
    """How many tasks it had had when each mini-batch was loaded."""
    begun: list[int]
    """How many tasks the trainer's stream had had when it was given each mini-batch."""


def given_in_an_epoch(member, config):
    """Train."""
    from gsplit.kernels import zero_copy

    controls, device = torch.ops.sim, member.device.index
    given = Given(device=device, noted=[], before={}, launches=[], feed=0, loaded=[], begun=[])
    load_next, hold_back = Feed._load_next, Feed._limit_run_ahead

    def loaded(feed):
        mini_batch = load_next(feed)
        if mini_batch is not None:
            given.feed = feed._stream.stream_id
            given.loaded.append(controls.issued(device, given.feed))
        return mini_batch

    def begun(feed):
        given.begun.append(controls.issued(device, 0))
        hold_back(feed)

    class Kernel:
        def __getitem__(self, grid):
            def launch(rows, ids, positions, out, count, **_):
                given.launches.append((grid[0], count))
                controls.read_rows(rows, ids, positions, out)

            return launch

    with (
        mock.patch.object(accelerator, "reader_of_rows", return_value=None),
        mock.patch.multiple(zero_copy, prepare=mock.DEFAULT, _read_rows=Kernel()),
        mock.patch.multiple(Feed, _load_next=loaded, _limit_run_ahead=begun),
    ):
        accelerator.synchronize(member.device)
        given.before = {stream: controls.issued(device, stream) for stream in range(STREAMS)}
        controls.note_tasks(True)
        train_in_trainer(member, config)
        controls.note_tasks(False)
    given.noted = controls.noted_tasks()
    return given


def lateness(given, blocks):
    """The share of an epoch by which an exchange, or what is computed for it, begins late at most.

    Args:
        given: to the streams.
        blocks: of each kernel that reads rows.
    """
    from simulated import occupancy

    tasks = occupancy.tasks_of(given.noted, given.device)
    of_stream = {stream: [task for task in tasks if task.stream == stream] for stream in (0, given.feed)}
    for number, (loaded, begun) in enumerate(zip(given.loaded, given.begun, strict=True)):
        of_stream[0][begun - given.before[0]].after.append((given.feed, loaded))
        if number > PREFETCH + MOST_BEGUN:  # the feed waits for the trainer, and that for its device
            first = given.loaded[number - 1] - given.before[given.feed]
            of_stream[given.feed][first].after.append((0, given.begun[number - PREFETCH - MOST_BEGUN - 1]))
    computing = [task for task in tasks if task.name.startswith("aten::")]
    for task in computing:
        task.blocks, task.seconds = SLOTS, 1.0
    exchanges = [task for task in tasks if task.name == "alltoall"]
    for task in exchanges:
        task.blocks, task.seconds = EXCHANGE_BLOCKS, 1.0
    reads = [task for task in tasks if task.name == "read_rows"]
    for task, number in zip(reads, blocks, strict=True):  # together they take as long whatever their number
        task.blocks = number
        task.seconds = LOADING * len(computing) / len(given.loaded) * min(SLOTS, number) / number
    epoch_s = occupancy.run(tasks, SLOTS, over=given.before)
    assert epoch_s >= LOADING * len(computing)
    assert len(exchanges) > 2 * len(given.loaded)
    of_trainer = [task for task in computing if task.stream == 0] + exchanges
    return max(task.begun - task.ready for task in of_trainer) / epoch_s


def test_exchanges_begin_when_they_are_ready_while_rows_are_read(controls, accelerator_pool, tmp_path):
    pytest.importorskip("triton")
    layout = lay_out(random_graph(20_000, 8, seed=3, features=256), tmp_path, parts=2)
    config = config_for(
        layout.path,
        tmp_path / "run",
        device="sim",
        cache="none",
        loader="zero-copy",
        epochs=1,
        batch_size=1000,
        fan_out=(8, 8),
        validate_every=0,
        prefetch=PREFETCH,
    )
    for given in accelerator_pool.run(2, given_in_an_epoch, config):
        assert given.feed != 0  # or loading and training would wait for each other
        assert lateness(given, [programs for programs, _ in given.launches]) < LATE_SHARE
        assert lateness(given, [rows for _, rows in given.launches]) > LATE_SHARE  # with a program a row
