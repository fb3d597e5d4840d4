"""``python -m gsplit.train LAYOUT --out RUN``."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

from gsplit import cli, starting
from gsplit.config.train import ELSEWHERE, TrainConfig
from gsplit.errors import InputError
from gsplit.hosts import Place, place_of
from gsplit.hosts.error_file import mistake_before, write_error_file
from gsplit.processes.environment import PASSIVE
from gsplit.terminal import flush, say_error

PROG = "python -m gsplit.train"


def resumed_run(arguments: list[str]) -> Path | None:
    """The value of --resume, looked up first: the run's own configuration supplies the defaults."""
    for i, word in enumerate(arguments):
        if word == "--resume" and i + 1 < len(arguments):
            return Path(arguments[i + 1])
        if word.startswith("--resume="):
            return Path(word.removeprefix("--resume="))
    return None


def command(arguments: list[str], prog: str = PROG) -> None:
    """Train as the arguments say; ``prog`` is what complaints call the command."""
    place = place_of()
    if place is not None:
        leave_by(place, partial(_train_at, place, arguments, prog))
    config = _parsed(arguments, prog, resumed_run(arguments))
    from gsplit.terminal import say
    from gsplit.train.api import train
    from gsplit.train.summary import summary_text

    result = train(config=config)
    say(result["check"] if config.check_model else result["plans"] if config.dry_run else summary_text(result))


def _parsed(arguments: list[str], prog: str, run: Path | None) -> TrainConfig:
    """The configuration that the arguments say, with that of a run that goes on for defaults."""
    defaults = None if run is None else vars(TrainConfig.resuming(run))
    return cli.parse(
        TrainConfig, arguments, prog=prog, defaults=defaults, answers=ELSEWHERE, needs=["gsplit.train.api"]
    )


def _train_at(place: Place, arguments: list[str], prog: str) -> None:
    """Train as one trainer of several that somebody else has started; trainer 0 prints the summary."""
    if (line := mistake_before(place)) is not None:
        write_error_file(place, line, mistake=True)
        error = InputError(line)
        error.said = True  # by the start before
        raise error
    os.environ.update({name: value for name, value in PASSIVE.items() if name not in os.environ})
    try:
        run = resumed_run(arguments) if place.rank == 0 else None  # which another host may not have
        config = _parsed(arguments, prog, run)
    except InputError as error:
        from gsplit.launch.placed import met

        with met(place, TrainConfig.silence):
            raise error
    from gsplit.terminal import say
    from gsplit.train.api import train
    from gsplit.train.summary import summary_text

    summary = train(config=config)
    if place.rank == 0:
        say(summary["plans"] if config.dry_run else summary_text(summary))


def leave_by(place: Place, work: Callable[[], None]) -> NoReturn:
    """Do the work of one trainer of several that somebody else has started, and exit; the last line names the host.

    Libraries are not taken down: they may wait for peers, as :func:`gsplit.processes.child.child_main` says.
    """
    code = 0
    try:
        work()
        flush()
    except BaseException as error:
        code = {InputError: starting.BAD_INPUT, KeyboardInterrupt: starting.INTERRUPTED}.get(type(error), 1)
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else 1
        if code and not getattr(error, "said", False):
            line = f"error: {error}" if code in (1, starting.BAD_INPUT) else f"{place.name}: stopped"
            say_error(f"{getattr(error, 'trace', '')}\n{line}".strip())
    os._exit(code)


if __name__ == "__main__":
    cli.main(command)
