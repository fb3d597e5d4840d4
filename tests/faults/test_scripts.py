"""Runs that a script, a prompt or a pipe starts: what trainers cannot import, and a reader that goes away."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support.commands import python
from support.forked import Popen
from support.messages import says

MODEL = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(5, 9000), torch.nn.Linear(9000, 4)  # more than a pipe takes
    def forward(self, blocks, x):
        for block, layer in zip(blocks.values(), (self.first, self.second)):
            x = layer(block.mean(block.exchange(x)))
        return x
"""
TRAIN = """
import gsplit
config = gsplit.TrainConfig(layout={layout!r}, out="new", device="cpu", fan_out=(2, 2))
"""
PREDICT = "import gsplit\ngsplit.predict({run!r}, {layout!r}, out='new.npy', device='cpu')\n"
GUARD = "if __name__ == '__main__':, (script.py, line #)"
STDIN = "standard input, (<stdin>, line 2)"
NOTEBOOK = "Net, notebook, module"


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("start", "script", "message"),
    [
        (["script.py"], MODEL + TRAIN + "gsplit.train(config=config, model=Net())", GUARD),
        (["script.py"], PREDICT, GUARD),
        ([], PREDICT, STDIN),
        (["-c"], MODEL + TRAIN + "gsplit.train(config=config, model=Net())", NOTEBOOK),
    ],
    ids=["train without the guard", "predict without the guard", "from stdin", "a class of a prompt"],
)
def test_a_script_that_trainers_cannot_import_gets_one_line(undisturbed, layout, tmp_path, start, script, message):
    folder = tmp_path / "here"
    folder.mkdir()
    script = script.format(layout=str(layout.path), run=str(undisturbed))
    (folder / "script.py").write_text(script)
    with (folder / "script.py").open() as file:
        words = [*start, *([script] if start == ["-c"] else [])]
        done = python(*words, code=1, cwd=folder, stdin=file, timeout=90)
    assert (done.stderr.count("\n"), done.stdout) == (1, ""), done.stderr
    says(done.stderr, "error:", message)
    assert os.listdir(folder) == ["script.py"]


def test_a_reader_that_goes_away_does_not_end_the_run(layout, tmp_path):
    words = f"-m gsplit.train {layout.path} --out run --device cpu --fan-out 2,2 --epochs 3 --samplers 1".split()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen([sys.executable, *words], cwd=tmp_path, text=True, **pipes) as command:
        assert command.stdout.readline().startswith("Epoch 01")
        command.stdout.close()
        said = command.stderr.read()
    assert command.returncode == 0, said
    assert "Traceback" not in said
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["epochs"] == 3
