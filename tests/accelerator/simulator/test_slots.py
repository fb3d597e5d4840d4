"""What a device with slots makes of its tasks: first come, first served, block by block; and priorities."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.accelerator


@pytest.fixture
def occupancy(sim):
    """The module, which is found where the device is."""
    from simulated import occupancy

    return occupancy


def begun(occupancy, slots, *tasks, **how):
    """When each of some tasks (stream, blocks, seconds) has all its slots, and when all is over."""
    made = [occupancy.Task(stream=stream, name="", blocks=blocks, seconds=s) for stream, blocks, s in tasks]
    end = occupancy.run(made, slots, **how)
    return [task.begun for task in made], end


def test_blocks_of_the_first_kernel_go_first(occupancy):
    assert begun(occupancy, 4, (1, 10, 1.0), (2, 1, 1.0)) == ([2.0, 2.0], 3.0)
    assert begun(occupancy, 4, (1, 12, 1.0), (2, 1, 1.0)) == ([2.0, 3.0], 4.0)
    assert begun(occupancy, 4, (1, 3, 9.0), (2, 2, 1.0)) == ([0.0, 1.0], 9.0)


def test_a_stream_of_high_priority_is_next_and_takes_no_slot_away(occupancy):
    assert begun(occupancy, 4, (1, 12, 1.0), (2, 1, 1.0), first=[2]) == ([3.0, 0.0], 4.0)
    assert begun(occupancy, 4, (1, 8, 1.0), (2, 1, 0.5), (2, 4, 1.0), first=[2]) == ([2.5, 0.0, 1.0], 3.5)


def test_streams_are_in_order_and_wait_for_each_other(occupancy, sim):
    noted = ["0 1 load", "1 1 other", "0 2 wait 1 3", "0 2 compute", "0 1 load"]
    tasks = occupancy.tasks_of(noted, 0)
    assert [(task.stream, task.blocks, task.after) for task in tasks[:2]] == [(1, 1, []), (2, 0, [(1, 3)])]
    for task in tasks:
        task.seconds = 1.0
    assert occupancy.run(tasks, 4, over={1: 2}) == 2.0
    assert [task.ready for task in tasks] == [0.0, 1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="wait for each other"):
        occupancy.run(tasks, 4)


def test_what_streams_are_given_is_noted(sim):
    import torch

    sim.drain()
    sim.noted_tasks()
    sim.note_tasks(True)
    side, main = torch.Stream("sim:0"), torch.accelerator.current_stream("sim:0")
    x = torch.ones(3, device="sim:0")
    side.wait_event(main.record_event())
    issued = sim.issued(0, main.stream_id)
    with side:
        x + 1
    sim.note_tasks(False)
    torch.accelerator.synchronize("sim:0")
    noted = [line.split(" ", 2) for line in sim.noted_tasks()]
    other = [name for _, stream, name in noted if stream == str(side.stream_id)]
    assert other[0] == f"wait {main.stream_id} {issued}"
    assert "aten::add.out" in other
