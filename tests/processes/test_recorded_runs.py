"""Small runs give the numbers that they gave when they were recorded: losses, scores, traffic, weights.

The numbers were recorded before the packages were laid out anew; some of them again since: those of ``split``, whose
dropout draws otherwise, the bytes that ``pyg`` exchanges, which are projected first, and the bytes of segments, which
tell how many edges come from own rows. They are of float64, and weights are rounded before their digest is taken, so
that another processor, which sums in another order, gives the same.

To record them again, after a change that is meant to change them: GSPLIT_RECORD=1 pytest THIS_FILE
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from support.graphs import lay_out, random_graph
from support.runs import records

import gsplit
from gsplit import cli
from gsplit.config.train import TrainConfig

RECORD = Path(__file__).with_name("recorded_runs.json")
COMMON = (
    "--fan-out 4,3 --batch-size 40 --hidden 8 --epochs 2 --lr 0.01 --dropout 0 --threads 1 --device cpu --samplers 0 "
    "--dtype float64 --seed 3"
)
CASES = {
    "split": "--gpus 3 --cache-size 20% --norm layer --dropout 0.3",
    "data": "--gpus 2 --strategy data --cache replicated --cache-size 10% --model gat --heads 2",
    "quiver": "--gpus 4 --strategy data --cache partitioned --cache-size 30% --model gcn --residual",
    "groups": "--gpus 4 --split-group 2 --model gcn --norm batch --input-projection --order sequence",
    "pyg": "--gpus 2 --model torch_geometric.nn:GraphSAGE --model-args norm=batch_norm --checkpoint-every-batches 2",
    "pyg attention": (
        "--gpus 2 --model torch_geometric.nn:GAT --model-args v2=True,heads=2 --prefetch 0 --validate-every 0"
    ),
}
ROUNDED_TO = 6
"""Decimals of a weight."""


@pytest.fixture
def train(here, tmp_path):
    """train(flags) -> the run's folder."""
    graph = random_graph(300, 10, seed=3, weighted=True)

    def run(flags: str) -> Path:
        words = f"{COMMON} {flags}".split()
        parts = words[words.index("--gpus") + 1]
        layout = lay_out(graph, tmp_path, parts=int(parts), method="random")
        out = tmp_path / "run"
        where = [str(layout.path)] + ([] if "--resume" in words else ["--out", str(out)])
        defaults = vars(TrainConfig.resuming(out)) if "--resume" in words else None
        if defaults is not None:
            at = words.index("--resume")
            words[at : at + 2] = []
        gsplit.train(config=cli.parse(TrainConfig, [*where, *words], prog="train", defaults=defaults))
        return out

    return run


def numbers_of(run: Path) -> dict:
    weights = gsplit.load(run).state_dict()
    rounded = b"".join(
        name.encode() + (np.round(tensor.double().numpy(), ROUNDED_TO) + 0.0).tobytes()
        for name, tensor in sorted(weights.items())
    )
    summary = json.loads((run / "summary.json").read_text())
    return {
        "losses": [record["loss"] for record in records(run)],
        "scores": [record["valid_accuracy"] for record in records(run)],
        "test_accuracy": summary["test_accuracy"],
        "model_epoch": summary["model_epoch"],
        "traffic": summary["traffic"],
        "mini_batches": len(records(run, "mini-batch")),
        "weights": hashlib.sha256(rounded).hexdigest(),
    }


def check(name: str, numbers: dict) -> None:
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if os.environ.get("GSPLIT_RECORD") == "1":
        RECORD.write_text(json.dumps({**known, name: numbers}, indent=2) + "\n")
        return
    wanted = known[name]
    assert numbers["losses"] == pytest.approx(wanted["losses"], rel=1e-9)
    for key in wanted.keys() - {"losses"}:
        assert numbers[key] == wanted[key], key


@pytest.mark.parametrize("name", CASES)
def test_the_run_gives_the_recorded_numbers(train, name):
    check(name, numbers_of(train(CASES[name])))


def test_a_run_folder_of_before_goes_on_to_the_recorded_numbers(train):
    """Its config.json is the text that an earlier release wrote; nothing else of the folder has changed."""
    run = train("--gpus 2 --epochs 1")
    config = json.loads((run / "config.json").read_text())
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if os.environ.get("GSPLIT_RECORD") == "1":
        kept = {**config, "layout": "LAYOUT", "out": "RUN"}
        RECORD.write_text(json.dumps({**known, "config.json": kept}, indent=2) + "\n")
    else:
        before = {**known["config.json"], "layout": config["layout"], "out": str(run)}
        (run / "config.json").write_text(json.dumps(before, indent=2) + "\n")
    check("resumed", numbers_of(train(f"--resume {run} --gpus 2 --epochs 3")))
