"""A run whose trainers somebody else has started, on one host or on several: each process is one of them.

Trainer 0 decides the run and holds its folder; the others hear of it, and each looks at what its own host has. On
every host the first trainer makes the memory that its peers map, and starts what supplies them.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch

from gsplit import __version__
from gsplit.config.parallel import SAMPLED
from gsplit.config.train import TrainConfig
from gsplit.data import Layout, open_layout
from gsplit.device import accelerator
from gsplit.device.choice import choose_device
from gsplit.device.seen import described
from gsplit.engine.engines import engine_of
from gsplit.engine.feed import MOST_BEGUN
from gsplit.engine.gridded import SubgraphGrids
from gsplit.engine.rows.shared import Shared
from gsplit.engine.run import Run
from gsplit.engine.sampled.engine import Sampled
from gsplit.engine.shares import shares
from gsplit.engine.strategy import check_strategy
from gsplit.engine.whole import WholeGraph
from gsplit.errors import InputError, ProcessDied
from gsplit.files import real_path
from gsplit.hosts import Place, handing
from gsplit.hosts.error_file import write_error_file
from gsplit.parallel.join import joined_at
from gsplit.parallel.meeting import End, Meeting
from gsplit.parallel.pulse import Pulse, leave_at_once
from gsplit.parallel.vote import StopVote
from gsplit.processes.interrupts import asked
from gsplit.starting import BAD_INPUT, INTERRUPTED, TERMINATED
from gsplit.supply.pipes import TrainerEnd
from gsplit.supply.supplier import Supplier
from gsplit.supply.tickets import Position
from gsplit.terminal import say_error

logger = logging.getLogger(__name__)

Work = Callable[..., dict[str, Any] | None]
"""What a trainer does once it has joined: ``work(member, run, shared, end)``; trainer 0 returns the summary."""


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What trainer 0 has decided for all."""

    run: Run
    work: Work
    position: Position
    """Where the run stands."""
    checksum: str
    """Checksum of the layout."""
    token: str
    """What nobody else knows, for the names of sockets."""


def check_carried(config: TrainConfig, place: Place) -> None:
    """Refuse what trainers that somebody else has started do not do.

    Raises:
        InputError: for what GSplit does not do there, and for another number of trainers.
    """
    started = f"trainers that {place.by} has started"
    if config.strategy not in (*SAMPLED, "full"):
        raise InputError(f"--strategy {config.strategy} is not there yet for {started}; use gsplit train on one host")
    if config.check_model:
        raise InputError(
            f"--check-model starts processes of its own, which {started} do not; run it by gsplit train, alone"
        )
    if config.gpus not in (None, place.world) and config.resume is None:
        raise InputError(f"--gpus is {config.gpus}, but {place.by} has started {place.world} trainers; drop --gpus")
    if place.hosts > 1:
        _check_hosts(config, place)


def _check_hosts(config: TrainConfig, place: Place) -> None:
    """Refuse what does not go over hosts yet."""
    if config.order == "ready":
        raise InputError(
            f"--order ready is the order in which one host samples; on {place.hosts} hosts use --order sequence"
        )


@contextmanager
def met(place: Place, silence_s: float) -> Iterator[Meeting]:
    """Meet the other trainers. Whatever ends the block ends all of them, and each says the same of it.

    Args:
        place: of this trainer.
        silence_s: seconds after which a host that says nothing is taken for gone.

    Raises:
        InputError, ProcessDied, KeyboardInterrupt, SystemExit: what the trainer that failed first did.
    """
    try:
        meeting = Meeting(place)
    except InputError as error:
        end = End.of(error if place.mistake is None else InputError(place.mistake), place)
        write_error_file(place, end.line)
        raise raised(end, speaks=place.local == 0) from None
    pulse, introduced = None, False
    try:
        if place.mistake is not None:
            raise InputError(place.mistake)
        introduce(meeting)
        pulse = Pulse(meeting, silence_s, partial(_end_now, place))
        introduced = True
        yield meeting
    except BaseException as error:
        end = meeting.end_of(error, str(error) if isinstance(error, ProcessDied) else None)
        write_error_file(place, end.line, mistake=introduced and end.code == BAD_INPUT)
        speaks = meeting.speaks()
        if pulse is not None:
            pulse.close()  # it would end this process, in which others still read
        meeting.leave()
        raise raised(end, speaks=speaks) from error
    else:
        meeting.leave()
    finally:
        if pulse is not None:
            pulse.close()


def _end_now(place: Place, end: End, speaks: bool) -> None:
    """End this process from another thread, where its main one may wait for ever; one of each host says why."""
    write_error_file(place, end.line, mistake=end.code == BAD_INPUT)
    if speaks:
        say_error(f"{end.trace}\nerror: {end.line}".strip())
    leave_at_once(end.code)


def raised(end: End, *, speaks: bool) -> Any:
    """The exception that stands for the end of a run; ``said`` of it tells a command that another prints its line."""
    error: Any
    if end.code == BAD_INPUT:
        error = InputError(end.line)
    elif end.code == INTERRUPTED:
        error = KeyboardInterrupt(end.line)
    elif end.code == TERMINATED:
        error = SystemExit(end.code)
    else:
        error = ProcessDied(end.line)
    error.said, error.trace = not speaks, end.trace
    return error


def introduce(meeting: Meeting) -> None:
    """Say who this trainer is, and compare its release of GSplit and of PyTorch with those of trainer 0.

    Raises:
        InputError: where they differ, before anything is decided.
    """
    meeting.introduce()
    own = {"GSplit": __version__, "PyTorch": torch.__version__, "trainers of a host": meeting.place.here}
    if meeting.place.rank == 0:
        meeting.tell("releases", own)
    for what, first in meeting.hear("releases").items():
        if own[what] != first:
            raise InputError(f"{what}: {own[what]} here, {first} at trainer 0; they must be the same on all hosts")


def lead(meeting: Meeting, run: Run, work: Work, position: Position) -> dict[str, Any]:
    """Train as trainer 0, which has decided the run and holds its folder; returns the summary.

    Raises:
        InputError: where a host does not have what the run needs.
        KeyboardInterrupt, SystemExit: where a trainer was asked to stop; what was trained is in a checkpoint.
    """
    place = meeting.place
    logger.info(
        "%d trainers on %d host%s, %d on each, on %s", place.world, place.hosts, "s" * (place.hosts > 1), place.here,
        described(run.config.device, place.here),
    )  # fmt: skip
    layout = open_layout(run.layout, trusted=True, typed=True)
    if (line := shares(run, layout)) is not None:
        logger.info(line)
    decided = Decided(run=run, work=work, position=position, checksum=layout.checksum, token=secrets.token_hex(8))
    meeting.tell("decided", decided)
    return _live(meeting, decided, layout)


def follow(meeting: Meeting, own: Path | None) -> dict[str, Any]:
    """Train as any other trainer, as trainer 0 has decided; returns what :func:`lead` does.

    Args:
        meeting: of this trainer.
        own: the layout as it was named to this process; None for where trainer 0 has it.
    """
    decided: Decided | dict[str, Any] = meeting.hear("decided")
    if not isinstance(decided, Decided):
        return decided  # the summary of a run that was over already
    path = decided.run.layout if own is None else real_path(own)
    layout = open_layout(path, typed=True)
    if layout.checksum != decided.checksum:
        raise InputError(f"{path} is another layout than that of trainer 0; copy one layout to all hosts")
    run = replace(decided.run, config=replace(decided.run.config, layout=path))
    device = choose_device(run.config.device, meeting.place.here)
    if device != run.config.device:
        raise InputError(f"trainer 0 computes on {run.config.device}, and this host has none of that kind")
    if meeting.place.local == 0:
        check_strategy(run.config, layout)
    return _live(meeting, replace(decided, run=run), layout)


def _live(meeting: Meeting, decided: Decided, layout: Layout) -> dict[str, Any]:
    """Join the others, train and return the summary."""
    run, place = decided.run, meeting.place
    meeting.gather("checked", True)
    patience = timedelta(minutes=run.config.timeout)
    with (
        _memory_here(meeting, decided, layout) as (shared, end),
        joined_at(meeting, run.config.device, run.config.threads, patience) as member,
        asked(shared.ask_to_stop, says=place.local == 0) as signals,
    ):
        late = 0 if member.device.type == accelerator.HOST else MOST_BEGUN
        member = replace(member, vote=StopVote(shared.asked_to_stop, late))
        summary = decided.work(member, run, shared, end)
        if place.rank == 0:
            meeting.tell("summary", summary)
        summary = meeting.hear("summary")
        if summary is None:
            _stop(max(meeting.gather("signal", signals.number)))
        member.barrier()
    return summary


def _stop(number: int) -> NoReturn:
    """End as the signal that stopped the run would have ended it."""
    raise SystemExit(128 + number) if number == signal.SIGTERM else KeyboardInterrupt


@contextmanager
def _memory_here(meeting: Meeting, decided: Decided, layout: Layout) -> Iterator[tuple[Shared, TrainerEnd]]:
    """The memory that the trainers of this host map, and this one's end of their supply."""
    place, run = meeting.place, decided.run
    name, listens = f"gsplit-{decided.token}-{place.host}", f"host {place.host} listens"
    if place.local:
        meeting.hear(listens)
        with handing.connected(name) as first:
            handing.send(first, place.local)
            shared, end = handing.receive(first)
        with closing(shared), end.held():
            yield shared, end
        return
    engine = engine_of(run.config)
    assert isinstance(engine, Sampled | SubgraphGrids | WholeGraph)
    here = range(place.rank, place.rank + place.here)
    supplier = Supplier(engine.supplied(run, layout, decided.position, here))
    try:
        with closing(Shared.create(place.here)) as shared, supplier.ends[0].held() as end:
            with handing.listening(name) as listener:
                meeting.tell(listens, os.getpid())
                for _ in range(1, place.here):
                    with handing.accepted(listener, meeting.look) as peer:
                        handing.send(peer, (shared, theirs := supplier.ends[handing.receive(peer)]))
                        theirs.close()
            yield shared, end
    except (EOFError, BrokenPipeError) as error:  # of a pipe of its
        raise supplier.failure() or error from error
    finally:
        supplier.end()
