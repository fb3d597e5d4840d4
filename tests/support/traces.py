"""What the streams of simulated devices were given in a training step, and results under many schedules.

What travels is laid out in virtual time, where it is late: one message at a time takes as long as LATE operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from gsplit.kernels import library_alone
from gsplit.train import loop
from support.accelerators import has_cpu_numbers
from support.runs import config_for, trainer_of
from support.steps import CPU

STREAMS = 33
LATE = 1000.0
SUM = "aten::_embedding_bag"
SCHEDULES = ["lazy", "eager", *(f"random:{seed}" for seed in range(20))]


@dataclass(kw_only=True)
class Given:
    """What the streams of a trainer's device were given in a step."""

    device: int
    noted: list[str]
    before: Mapping[int, int]
    """How many tasks each stream had had."""

    def meanwhile(self, name: str) -> list[list[str]]:
        """What the trainer's stream is given behind a task of a name, and ends while that goes on, for each of them.

        Those on the trainer's own stream, which nothing can overlap with, are left out.
        """
        from simulated import occupancy

        tasks = occupancy.tasks_of(self.noted, self.device)
        found = []
        for place, late in enumerate(tasks):
            if late.name != name or not late.stream:
                continue
            for task in tasks:
                task.seconds = LATE if task is late else 1.0
            occupancy.run(tasks, len(tasks), over=self.before)
            behind = [task for task in tasks[place:] if not task.stream and task.blocks]
            found.append([task.name for task in behind if task.ended <= late.ended])
        return found


def given_in_a_step(member, config):
    """Train on the second mini-batch, of which all is loaded; the first one imports, and turns what stays."""
    controls, device = torch.ops.sim, member.device.index
    controls.set_schedule("lazy:3000")  # what has not been reached is waited for, and so noted
    trainer = trainer_of(member, config)
    for _ in range(2):
        mini_batch = next(trainer.feed)
        torch.accelerator.synchronize(device)
        before = {stream: controls.issued(device, stream) for stream in range(STREAMS)}
        controls.noted_tasks()
        controls.note_tasks(True)
        loop.step(trainer, mini_batch)
        controls.note_tasks(False)
    given = Given(device=device, noted=controls.noted_tasks(), before=before)
    trainer.close()
    return given


def given(pool, layouts, out, world, **changes):
    config = config_for(layouts(world).path, out, device="sim", epochs=4, prefetch=1, **changes)
    return pool.run(world, given_in_a_step, config)


def differing(member, function, schedules):
    """The schedules under which what a function gives is other than the host's, or than it was at first."""
    member = replace(member, checker=None, mail=None)
    with library_alone():
        wanted = function(replace(member, device=CPU) if has_cpu_numbers("sim") else member)
    found = []
    for schedule in schedules:
        torch.ops.sim.set_schedule(schedule)
        if not all(map(torch.equal, function(member), wanted)):
            found.append(schedule)
    return found
