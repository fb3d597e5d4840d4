"""``python -m gsplit.train LAYOUT --out RUN``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gsplit import cli
from gsplit.train.api import CONFIG, train
from gsplit.train.config import TrainConfig
from gsplit.train.report import summary_text

PROG = "python -m gsplit.train"


def resumed_run(arguments: list[str]) -> Path | None:
    """The value of --resume, looked up first: the run's own configuration supplies the defaults."""
    for i, word in enumerate(arguments):
        if word == "--resume" and i + 1 < len(arguments):
            return Path(arguments[i + 1])
        if word.startswith("--resume="):
            return Path(word.removeprefix("--resume="))
    return None


def command(arguments: list[str]) -> None:
    run = resumed_run(arguments)
    default = None
    if run is not None:
        before = TrainConfig.from_json(run / CONFIG)
        # The number of trainers follows the layout, which may be another one now.
        default = replace(before, gpus=None, out=None, overwrite=False)
    config = cli.parse(TrainConfig, arguments, prog=PROG, default=default)
    print(summary_text(train(config=config)))


if __name__ == "__main__":
    cli.main(command)
