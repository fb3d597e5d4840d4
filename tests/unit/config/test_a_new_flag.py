"""A flag is added in one place, its field, and in another that uses it: all else follows from the field's rules."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gsplit

PACKAGE = Path(gsplit.__file__).parent
FIELD = '''    clip_grad_value: Annotated[float | None, Range(above=0, below=9), Only(optimizer="sgd"), RESULTS] = None
    """sgd: the largest entry of a gradient."""
    optimizer: '''
TRIED = """
import json, logging, sys
from pathlib import Path
from support.graphs import lay_out, random_graph
import gsplit
from gsplit.config.train import TrainConfig, save_configurations
from gsplit.launch.resolve import resolve
from gsplit.launch.resume import Resumed, taken_up
from gsplit.train.__main__ import command

def line(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except gsplit.InputError as error:
        return str(error)

folder = Path(sys.argv[1])
layout = lay_out(random_graph(30, 3), folder, parts=2).path
config = {"layout": layout, "out": folder / "run", "device": "cpu", "fan_out": (2,), "optimizer": "sgd"}
run = resolve(TrainConfig(**config, clip_grad_value=2.0))
said = []
logging.getLogger("gsplit").addHandler(type("Said", (logging.Handler,), {"emit": lambda _, r: said.append(r.getMessage())})())
now = resolve(TrainConfig(**config, clip_grad_value=3.0))
Resumed(run=now, before=run.asked, checkpoint={"trainers": 2, "threads": now.config.threads}).warn_of_changes()
print(json.dumps({
    "range": line(TrainConfig, clip_grad_value=9.5),
    "effect": line(resolve, TrainConfig(**{**config, "optimizer": "adam"}, clip_grad_value=2.0)),
    "command": line(command, [str(layout), "--out", str(folder / "run"), "--clip-grad-value", "-1"]),
    "recorded": run.settings["clip_grad_value"],
    "used": run.config.clip_grad_value,
    "resumed": said,
}))
try:
    command(["--help"])
except SystemExit:
    pass
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What a copy of the package with a dummy flag says, and its help."""
    import json

    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, folder / "gsplit", ignore=shutil.ignore_patterns("__pycache__", "csrc"))
    core = Path(gsplit._core.__file__)
    (folder / "gsplit" / core.name).symlink_to(core)
    path = folder / "gsplit" / "config" / "optimisation.py"
    path.write_text(path.read_text().replace("    optimizer: ", FIELD, 1))
    begin = f"import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'Editable' not in type(f).__name__]; sys.path[:0] = {[str(folder), str(Path(__file__).parents[2])]!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + TRIED, str(folder)], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    line, _, help_ = done.stdout.partition("\n")
    return {**json.loads(line), "help": help_}


def test_it_is_checked_refused_resumed_recorded_and_shown(outcome):
    assert outcome["range"] == "--clip-grad-value must be in (0, 9), not 9.5"
    assert outcome["effect"] == "--clip-grad-value 2.0 has no effect with --optimizer adam, only with sgd; drop it"
    assert "--clip-grad-value" in outcome["command"]
    assert outcome["recorded"] == outcome["used"] == 2.0
    assert "resuming with clip_grad_value 3.0 instead of 2.0" in outcome["resumed"]
    assert "--clip-grad-value" in outcome["help"]
    assert "the largest entry of a gradient" in " ".join(outcome["help"].split())
