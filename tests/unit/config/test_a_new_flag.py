"""A flag is added in one place, its field, and used in another: all else follows from the rules beside the field."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.commands import python
from support.messages import says

import gsplit

PACKAGE = Path(gsplit.__file__).parent
FIELD = '''    clip_value: Annotated[float | None, Range(above=0, below=9), Only(optimizer="sgd"), RESULTS] = None
    """sgd: the largest entry that a gradient may have."""
    optimizer: '''
BEGIN = """
import sys
sys.meta_path[:] = [each for each in sys.meta_path if "Redirecting" not in type(each).__name__]
sys.path[:0] = sys.argv[1:3]
"""
"""The copy is imported, and not the package that is installed for editing."""
TRIED = """
import json, logging
from pathlib import Path
import gsplit
from gsplit.config.train import TrainConfig
from gsplit.launch.resolve import resolve
from gsplit.launch.resume import Resumed
from gsplit.train.__main__ import command
from support.graphs import lay_out, random_graph

class Said(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())

def line(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except gsplit.InputError as error:
        return str(error)

said, folder = [], Path(sys.argv[1])
logging.getLogger("gsplit").addHandler(Said())
layout = lay_out(random_graph(30, 3), folder, parts=2).path
flags = {"layout": layout, "out": folder / "run", "device": "cpu", "fan_out": (2,), "optimizer": "sgd"}
run, now = (resolve(TrainConfig(**flags, clip_value=value)) for value in (2.0, 3.0))
Resumed(run=now, before=run.asked, checkpoint={"trainers": 2, "threads": now.config.threads}).warn_of_changes()
print(json.dumps({
    "wrong": line(TrainConfig, clip_value=9.5),
    "useless": line(resolve, TrainConfig(**{**flags, "optimizer": "adam"}, clip_value=2.0)),
    "recorded": run.settings["clip_value"],
    "used": run.config.clip_value,
    "resumed": said,
    "saved": json.loads(run.config.to_json())["clip_value"],
}))
command(["--help"])
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What a copy of the package that has one field more says, and its help."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, folder / "gsplit", ignore=shutil.ignore_patterns("__pycache__", "csrc", "*.so"))
    core = Path(gsplit._core.__file__)
    (folder / "gsplit" / core.name).symlink_to(core)
    path = folder / "gsplit" / "config" / "optimisation.py"
    path.write_text(path.read_text().replace("    optimizer: ", FIELD, 1))
    done = python("-c", BEGIN + TRIED, folder, Path(__file__).parents[2], cwd=folder)
    line, _, shown = done.stdout.partition("\n")
    return {**json.loads(line), "help": " ".join(shown.split())}


def test_it_is_checked_refused_recorded_resumed_and_shown(found):
    says(found["wrong"], "--clip-value, 0, 9, 9.5")
    says(found["useless"], "--clip-value, 2.0, --optimizer adam, sgd, drop it")
    assert found["recorded"] == found["used"] == found["saved"] == 2.0
    says(found["resumed"], "clip_value, 3.0, 2.0")
    assert "--clip-value" in found["help"]
    assert "the largest entry that a gradient may have" in found["help"]
