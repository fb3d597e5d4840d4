"""``python -m gsplit.predict RUN LAYOUT --out FILE``."""

from __future__ import annotations

from gsplit import cli
from gsplit.config.predict import PredictConfig
from gsplit.errors import InputError

PROG = "python -m gsplit.predict"


def command(arguments: list[str], prog: str = PROG) -> None:
    """Predict as the arguments say; ``prog`` is what complaints call the command."""
    config = cli.parse(PredictConfig, arguments, prog=prog, needs=["gsplit.predict.api"])
    if config.out is None:
        raise InputError("no --out given: name the file for the predictions, .npy, .npz or .csv")
    from gsplit.predict.api import predict
    from gsplit.terminal import say

    values = predict(**vars(config))
    drawn = ",".join("all" if each < 0 else str(each) for each in config.fan_out)
    drawn += f", {config.fan_out_of}" if config.fan_out_of else ""
    over = f"neighbours drawn by hop: {drawn}" if config.draws else "all neighbours"
    kind = config.what or ("classes" if values.dtype.kind in "iu" else "values")
    form = values.dtype if values.dtype.names is None else values.dtype["score"]
    of = "pairs" if kind == "scores" else "vertices"
    what = f"{kind} of {len(values):,} {of} ({form}, {list(values.shape)})"
    say(f"{what}, over {over}, in {config.out}")


if __name__ == "__main__":
    cli.main(command)
