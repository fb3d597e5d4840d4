"""The same command line again: it goes on with the run in --out, where there is something to go on from.

| what asks for it | what is in --out | what is done |
|---|---|---|
| ``--continue`` | a checkpoint | the run goes on |
| | a run without one | it begins again, in its place; not where it has ended |
| | nothing | it begins |
| a count of restarts, by torchrun or Slurm | | the same, but what another job has made stays as without the count |
| | nothing, and it was begun on another host | that is refused: trainer 0 has come to a host without the run |
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from gsplit.config.train import TrainConfig
from gsplit.data import open_layout, open_store
from gsplit.errors import InputError
from gsplit.files import real_path
from gsplit.parallel.meeting import Meeting
from gsplit.runs import checkpoint
from gsplit.runs.folder import CONFIG, RUNS, standing
from gsplit.runs.log import SUMMARY
from gsplit.runs.starts import Starter
from gsplit.train.store_layout import LAYOUT, is_store_of_run

SEEN = "seen/{}"
"""Key of the checkpoint that a host has of a run."""

logger = logging.getLogger(__name__)


def tell_seen(meeting: Meeting, config: TrainConfig) -> None:
    """Tell trainer 0 what this host has of the run."""
    if meeting.place.local == 0 and meeting.place.rank:
        meeting.tell(SEEN.format(meeting.place.host), _point(config.resume or config.out))


def starter_at(meeting: Meeting, config: TrainConfig) -> Starter:
    """Who starts the run, as trainer 0 knows it once all have met.

    Raises:
        InputError: where the run is to go on, and another host has what this one has not.
    """
    out = config.resume or config.out
    begun = None if out is None else meeting.was_begun(out)
    starter = Starter(jobs=meeting.job(), again=bool(meeting.restarts or begun is not None), silence_s=config.silence)
    trains = out is not None and not config.dry_run and config.continue_ is not False
    if out is not None and trains and (starter.again or config.continue_ or config.resume):
        _check_here(meeting, out, begun, starter, begins=config.overwrite)
    return starter


def _check_here(meeting: Meeting, run: Path, begun: str | None, starter: Starter, *, begins: bool) -> None:
    """Refuse to go on where another host has a later checkpoint, or had the run, and this one has none."""
    place, own = meeting.place, _point(run)
    for host in range(1, place.hosts):
        theirs: dict[str, int] | None = meeting.hear(SEEN.format(host))
        if theirs is not None and (own is None or (*theirs.values(),) > (*own.values(),)):
            name = meeting.names[host * place.here]
            here = f"it is after {checkpoint.point(own)}" if own else "there is none"
            raise InputError(
                f"the last checkpoint of {run} on {name} is after {checkpoint.point(theirs)}; on {place.name}, where "
                f"trainer 0 is now, {here}; put --out where all hosts see it, or start trainer 0 on {name}"
            )
    RUNS.recover(run)
    missing = starter.again and not begins and standing(run) == "nothing"
    if missing and (begun or (None if place.served else "another host")) not in (None, place.name):
        raise InputError(
            f"the run was begun on {begun or 'another host'}, and trainer 0 is on {place.name} now, which has no "
            f"{run}: put --out where all hosts see it, or begin again with --overwrite"
        )


def _point(run: Path | None) -> dict[str, int] | None:
    """How far the last checkpoint of a run is; None without one, or for one that is damaged."""
    if run is None:
        return None
    try:
        about = checkpoint.describe_state(run, checkpoint.CHECKPOINT)
    except InputError:
        return None
    return {"epoch": about["epoch"], "batch": about["batch"]}


def goes_on(config: TrainConfig, starter: Starter | None = None) -> TrainConfig:
    """Return what is asked for as that of a run that goes on, or that begins.

    Args:
        config: as asked for.
        starter: who has started this process, where that starts the trainers.

    Raises:
        InputError: where the run in --out cannot go on.
    """
    out, again = config.out, starter is not None and starter.again
    if out is None or config.resume or config.check_model or config.dry_run or config.continue_ is False:
        return config
    if not (config.continue_ or again):
        return config
    RUNS.recover(out)
    made = None if starter is None else starter.made(out)
    if not config.continue_ and (made is False or (config.overwrite and made is None)):
        return config  # as at first: this start is the first that has come so far
    by = "--continue" if config.continue_ else "started again"
    if (out / f"{checkpoint.CHECKPOINT}.json").exists():
        after = checkpoint.point(checkpoint.describe_state(out, checkpoint.CHECKPOINT))
        logger.info("%s: going on with the run in %s, from its checkpoint after %s", by, out, after)
        return _resumed(config, out)
    if standing(out) == "run" and not (out / SUMMARY).exists():
        logger.info("%s: the run in %s has no checkpoint, and begins again", by, out)
        return replace(config, continue_=None, overwrite=True)
    return config


def _resumed(config: TrainConfig, out: Path) -> TrainConfig:
    """The same, but what its last start decided by itself stays, and what only a beginning takes is forgotten."""
    before = TrainConfig.from_json(out / CONFIG)
    layout = config.layout
    if layout is not None and is_store_of_run(config):
        if open_layout(out / LAYOUT, typed=True).store_checksum != open_store(layout, typed=True).checksum:
            raise InputError(f"the run in {out} trained on another store than {layout}; choose another --out")
        layout = real_path(out) / LAYOUT
    return replace(
        config,
        layout=layout,
        resume=out,
        overwrite=False,
        init_from=None,
        threads=config.threads or before.threads,
        precision=before.precision if config.precision == "auto" else config.precision,
    )
