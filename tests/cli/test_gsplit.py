"""``gsplit COMMAND`` is ``python -m gsplit.COMMAND``, and says so of itself."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import gsplit
from gsplit import cli, starting
from gsplit.__main__ import COMMANDS, command, main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def printed(capsys, monkeypatch):
    """printed("train", "--lr"): exit code and output of a command in this process, called as ``prog``."""
    monkeypatch.setattr(logging, "addLevelName", lambda *_: None)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setattr(cli, "OURS", ())
    monkeypatch.setattr(starting, "watch_script", lambda: None)  # what tests start would inherit it

    def run(*words, prog="gsplit"):
        monkeypatch.setattr(sys, "argv", [prog, *words])
        try:
            main(prog)
        except SystemExit as stop:
            return stop.code or 0, *capsys.readouterr()
        return 0, *capsys.readouterr()

    return run


def test_pip_installs_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"gsplit": "gsplit.__main__:main"}
    assert (ROOT / "gsplit" / "py.typed").is_file()


def test_version(printed):
    assert printed("--version") == (0, f"gsplit {gsplit.__version__}\n", "")


@pytest.mark.parametrize("words", [("--help",), ("-h",)])
def test_help_names_each_command(printed, words):
    code, out, err = printed(*words)
    assert (code, err) == (0, "")
    assert out.startswith("usage: gsplit {import, export, info, partition, report, train, predict, doctor} ...\n")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_called_as_the_user_called_it(printed, name):
    assert printed(name, "--help")[1].startswith(f"usage: gsplit {name} [-h] ")
    code, _, err = printed(name, "--not-a-flag", prog="python -m gsplit")
    assert code == 2
    assert err.count("\n") == 1
    assert err.endswith(f" (see python -m gsplit {name} --help)\n")


@pytest.mark.parametrize(("words", "complaint"), [(("trian",), "unknown command 'trian'"), ((), "no command given")])
def test_another_command_is_refused_in_one_line(printed, words, complaint):
    code, _, err = printed(*words)
    assert (code, err) == (2, f"error: {complaint}; choose one of {', '.join(COMMANDS)}\n")


def test_arguments_reach_the_command(tmp_path, capsys):
    command(["import", "synthetic:tiny", "--out", str(tmp_path / "store")])
    command(["partition", str(tmp_path / "store"), "--parts", "2", "--out", str(tmp_path / "layout")])
    capsys.readouterr()
    command(["info", str(tmp_path / "layout"), "--verify"])
    assert "2 parts" in capsys.readouterr().out


def test_no_torch_before_it_is_needed():
    modules = "gsplit.__main__, gsplit.data.__main__, gsplit.partition.__main__, gsplit.report.__main__"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
