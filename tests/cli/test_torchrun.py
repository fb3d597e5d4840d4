"""torchrun, which starts the command once for each trainer."""

from __future__ import annotations

import subprocess

import torch
from support.commands import python
from support.graphs import lay_out, random_graph
from support.messages import says
from support.runs import all_equal, config_for, records

import gsplit

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
KEPT = ("epoch", "batch", "trainer", "targets", "traffic", "loss", "valid_accuracy", "settings")


def test_its_trainers_compute_what_ours_do_to_the_last_bit(tmp_path, in_pool):
    layout = lay_out(random_graph(300, 10, seed=3), tmp_path, parts=2).path
    config = config_for(layout, tmp_path / "ours", model="gat", heads=2, dropout=0.5, samplers=2)
    flags = "--fan-out 4,4 --batch-size 40 --hidden 8 --epochs 2 --lr 0.01 --dropout 0.5 --threads 1 --device cpu"
    command = f"-m gsplit.train {layout} --out {tmp_path / 'theirs'} --model gat --heads 2 --samplers 2 {flags}"
    theirs = python(*TORCHRUN, *command.split(), stdin=subprocess.DEVNULL)
    with in_pool():
        summary = gsplit.train(config=config)
    says(theirs.stdout, f"test, {summary['test_accuracy']:.4f}, valid")
    weights = [torch.load(tmp_path / run / "model.pt") for run in ("ours", "theirs")]
    assert all_equal(*weights)
    for kind in ("mini-batch", "epoch"):
        of_runs = [
            [{key: record.get(key) for key in KEPT} for record in records(tmp_path / run, kind)]
            for run in ("ours", "theirs")
        ]
        assert of_runs[0] == of_runs[1]


def test_a_mistake_is_its_root_cause(tmp_path):
    layout = lay_out(random_graph(100, 5, seed=3), tmp_path, parts=2).path
    command = ["-m", "gsplit.train", str(layout), "--out", str(tmp_path / "run"), "--check-model"]
    done = python(*TORCHRUN, *command, code=1, stdin=subprocess.DEVNULL)
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    says(lines[0], "--check-model, processes, gsplit train")
    root = done.stderr.partition("Root Cause")[2]
    says(root, "exitcode, 2")
    says(root, "--check-model, processes, gsplit train")
    assert not (tmp_path / "run").exists()
