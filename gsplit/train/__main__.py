"""``python -m gsplit.train LAYOUT --out RUN``."""

from __future__ import annotations

from pathlib import Path

from gsplit import cli
from gsplit.config.train import ELSEWHERE, TrainConfig

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
    run = resumed_run(arguments)
    defaults = None if run is None else vars(TrainConfig.resuming(run))
    config = cli.parse(
        TrainConfig, arguments, prog=prog, defaults=defaults, answers=ELSEWHERE, needs=["gsplit.train.api"]
    )
    from gsplit.terminal import say
    from gsplit.train.api import train
    from gsplit.train.summary import summary_text

    result = train(config=config)
    say(result["check"] if config.check_model else result["plans"] if config.dry_run else summary_text(result))


if __name__ == "__main__":
    cli.main(command)
