"""The check for GPUs goes on after whatever happens, and says what did; ``DEVICE=cpu`` rehearses its parts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import venv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from support.devices import hide
from support.messages import line_with, says

from gsplit import cli
from gsplit.errors import InputError
from tools.gpu_check import links, missing, one, sick, training
from tools.gpu_check.__main__ import GpuCheckConfig, checked, command, device_of, page, parts_of
from tools.gpu_check.one import ONE
from tools.gpu_check.place import Failed, Part, Place
from tools.gpu_check.several import several

SETTINGS = '[tool.pytest.ini_options]\naddopts = "-q --strict-markers"\nmarkers = ["gpu", "slow"]\n'
SCRIPT = Path(__file__).parents[2] / "tools" / "gpu_check.sh"


@pytest.fixture
def place(tmp_path):
    return Place(device="cpu", gpus=1, out=tmp_path / "out", work=tmp_path / "work")


def fail(_):
    raise Failed("wrong | numbers")


def test_every_part_has_its_end_and_the_others_run(place, capsys):
    """One is right, one is wrong, one breaks, one hangs with a child of its own; there is no time for the last."""
    mark = f"gsplit-test-{os.getpid()}"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(99)', '{mark}'])"
    parts = [
        Part(name="right", limit_s=9, run=lambda place: place.python("right", "-c", "print('said', end='')")),
        Part(name="wrong", limit_s=9, run=fail),
        Part(name="broken", limit_s=9, run=lambda place: place.python("broken", "-c", "raise ValueError('why')")),
        Part(name="odd", limit_s=9, run=lambda _: str(1 / 0)),
        Part(name="hangs", limit_s=1, run=lambda place: place.python("hangs", "-c", child)),
        Part(name="last", limit_s=9, run=lambda _: time.sleep(9) or ""),
    ]
    outcomes = checked(parts[:5], place, 60)
    assert [each.good for each in outcomes] == [True, False, False, False, False]
    assert outcomes[4].seconds < 30
    assert not [p for p in psutil.process_iter(["cmdline"]) if mark in " ".join(p.info["cmdline"] or ())]
    rows = page(place, parts, outcomes).splitlines()[-6:]
    assert rows[0].startswith("| right | said | ")
    assert rows[1].startswith("| wrong | **failed**: wrong / numbers | ")
    assert rows[2].startswith("| broken | **failed**: exit code 1: ValueError: why | ")
    assert rows[3].startswith("| odd | **failed**: ZeroDivisionError: division by zero | ")
    assert rows[4].startswith("| hangs | **failed**: not done within 3 s | ")
    assert rows[5] == "| last | **not reached** | - of 9 |"
    assert checked(parts, place, 0) == []
    said = capsys.readouterr().out
    assert "wrong: FAILED: wrong | numbers" in said
    assert "    Traceback (most recent call last):" in said


def test_where_no_other_part_can_be_right_none_is_begun(place):
    parts = [
        Part(name="rest", limit_s=9, run=fail),
        Part(name="needed", limit_s=9, run=fail, is_needed=True),
        Part(name="later", limit_s=9, run=lambda _: "right"),
    ]
    assert [each.name for each in checked(parts, place, 60)] == ["rest", "needed"]
    assert "| later | **not reached** | - of 9 |" in page(place, parts, checked(parts, place, 60))


def test_the_page_has_rates_beside_their_floors_and_memory(place, monkeypatch):
    """The floor of a rate is a number, or another rate, whichever part comes first."""
    rates = [["all-to-all", 3.0, "a copy", None], ["a copy", 12.0, "PCIe 4 x16", 31.5], ["rest", 1.0, "", None]]
    found = {"line": "fine", "wrong": "", "memory": [["after a product", "64 MiB"]], "rates": rates}
    monkeypatch.setattr(Place, "python", lambda *_: f"said before\n{json.dumps(found)}\n")
    part = one.measured("links", "links", 9)
    (outcome,) = checked([part], place, 60)
    assert (outcome.good, outcome.result) == (True, "fine")
    lines = page(place, [part], [outcome]).splitlines()
    assert "| all-to-all | 3.00 | a copy | 0.25 |" in lines
    assert "| a copy | 12.00 | PCIe 4 x16 | 0.38 |" in lines
    assert "| rest | 1.00 |  |  |" in lines
    assert "| after a product | 64 MiB |" in lines
    found["wrong"] = "a link is slow"
    (outcome,) = checked([part], place, 60)
    assert (outcome.good, outcome.result) == (False, "a link is slow")
    assert len(place.rates) == 6  # what was measured is on the page all the same


PCI = "GPU-aa, 4, 16\nGPU-bb, 3, 4\n"
TOPOLOGY = " \tGPU0\tGPU1\t\nGPU0\tX\t{0}\t\nGPU1\t{0}\tX\t\n\nLegend:\n  X    = Self\n  GNS  = GPU not supported\n"


def test_a_link_is_held_to_what_its_slot_has(monkeypatch):
    monkeypatch.setattr(links, "said", lambda *_: PCI)
    module = SimpleNamespace(get_device_properties=lambda _: SimpleNamespace(uuid="bb"))
    monkeypatch.setattr(torch, "get_device_module", lambda _: module)
    assert links.floor_of(torch.device("xpu", 1)) == ("PCIe 3 x4", pytest.approx(3.94))
    monkeypatch.setattr(links, "said", lambda *_: "GPU-bb, [N/A], [N/A]\n")
    assert links.floor_of(torch.device("xpu", 1)) == ("PCIe 1 x1", 0.25)


@pytest.mark.parametrize(("said", "apart"), [("GNS", []), ("CNS", ["xpu:0 and xpu:1"]), ("", ["xpu:0 and xpu:1"])])
def test_gpus_that_never_reach_each_other_are_healthy(monkeypatch, said, apart):
    monkeypatch.setattr(links, "said", lambda *_: TOPOLOGY.format(said) if said else "")
    monkeypatch.setattr(links, "reaches", lambda kind, one, other: False)
    assert links.not_reached("xpu", 2) == apart
    monkeypatch.setattr(links, "reaches", lambda kind, one, other: None)  # nothing tells
    assert links.not_reached("xpu", 2) == []


def test_tests_are_counted(place, tmp_path):
    """Those with either mark, in files that have it, but slow ones; a mark that no file has is not asked for."""
    place.root = tmp_path
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    marked = "import pytest\npytestmark = pytest.mark.gpu\n"
    slow = "@pytest.mark.slow\ndef test_s(): assert False\n"
    (tmp_path / "tests" / "test_one.py").write_text(marked + slow + "def test_a(): pass\ndef test_b(): pass\n")
    (tmp_path / "tests" / "test_other.py").write_text("def test_c(): assert False\n")
    place.deadline_s = time.monotonic() + 60
    assert one.tests(place) == "2 passed"
    with (tmp_path / "tests" / "test_one.py").open("a") as file:
        file.write("def test_d(): assert 'PASSED' == 'FAILED ERROR'\n")
    with pytest.raises(Failed, match=line_with("2 passed, 1 failed, tests/test_one.py::test_d, exit code 1")):
        one.tests(place)
    said = (place.out / "tests" / "stdout").read_text()
    assert (
        said.index("--- why") < said.index("assert 'PASSED' == ") < said.index(" FAILURES ")
    )  # not at the end alone


@pytest.mark.parametrize(("off", "right"), [(0.0, True), (2e-8, False), (np.nan, False)])
def test_logits_are_held_against_the_cpu_s(place, monkeypatch, off, right):
    made = []

    def train(place, name, layout, *flags, device="", starter=(), **variables):
        made.append((device or place.device, starter, flags[len(training.EXACT) :], variables))
        folder = place.work / f"run-{name}"
        folder.mkdir(parents=True)
        np.save(folder / "predictions.npy", np.ones((3, 2)) + (0 if device else off))

    monkeypatch.setattr(training, "train", train)
    monkeypatch.setattr(training, "make", lambda *_: "layout")
    place.device = "xpu"
    for name in ("a", "b"):  # the second has the CPU's of the first
        with contextlib.nullcontext() if right else pytest.raises(Failed, match=line_with("1e-08")):
            training.equals(place, name, 2, ("--x", 1), ("--y",), {"Z": "1"}, ("-m", "starter"))
    on_device = ("xpu", ("-m", "starter"), ("--x", 1, "--y"), {"Z": "1"})
    assert made == [("cpu", (), ("--x", 1), {}), on_device, on_device]


def test_all_parts_together_take_ten_minutes_at_most():
    """Whatever their limits add up to: what is left is not begun, and said."""
    for parts in (ONE, several(2)):
        assert len({part.name for part in parts}) == len(parts)
        assert all(5 <= part.limit_s <= 150 for part in parts)
    assert GpuCheckConfig(device="cpu").minutes == 10


def test_words_of_parts_do_not_take_the_folder_along():
    config = cli.parse(GpuCheckConfig, ["--only", "graph, gather", "out", "--device", "cpu"], prog="gpu_check")
    assert (config.out, [part.name for part in parts_of(config)]) == (
        Path("out"),
        ["overlap: gather", "one trainer, the whole graph"],
    )
    assert parts_of(GpuCheckConfig(device="cpu")) == ONE


def test_mistakes(monkeypatch, tmp_path):
    hide(monkeypatch)
    monkeypatch.setattr("tools.gpu_check.__main__.why_none", lambda kind: "an old driver")
    with pytest.raises(InputError, match=line_with("an old driver, DEVICE=cpu")):
        device_of(GpuCheckConfig(device="auto"))
    with pytest.raises(InputError, match=line_with("--gpus, 1, 0")):
        device_of(GpuCheckConfig(device="xpu"))
    with pytest.raises(InputError, match=line_with("--only xyz")):
        parts_of(GpuCheckConfig(device="cpu", only="xyz"))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot make the folder"):
        command([str(tmp_path / "file"), "--device", "cpu", "--only", "split"])


def rehearse(out, *words):
    return subprocess.run(
        [SCRIPT, str(out), *words],
        env={**os.environ, "PYTHON": sys.executable, "DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=2000,
        check=False,
    )


def test_what_is_missing_is_said_with_the_command_that_brings_it(tmp_path):
    """As after make demo alone, or with a Python that nobody prepared; before anything is made."""
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / "bin" / "python"
    environment = {**os.environ, "PYTHON": str(python)}
    done = subprocess.run([SCRIPT, "out"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    says(line, "error:", str(python), "gsplit, torch, numpy", f"{python} -m pip install '{missing.ROOT}[dev,pyg]'")
    assert not (tmp_path / "out").exists()


def test_the_project_s_own_environment_is_filled_by_its_makefile(tmp_path):
    own = tmp_path / ".venv" / "bin" / "python"
    said = missing.command(str(own), tmp_path)
    assert said == f"make -C {tmp_path} .venv/.built .venv/.needs-dev"
    rules = (missing.ROOT / "Makefile").read_text()
    assert all(f"$(VENV)/.{name}:" in rules for name in ("built", "needs-dev"))
    assert not missing.missing()  # of the environment of the tests


@pytest.mark.slow
def test_a_part_is_rehearsed(tmp_path):
    done = rehearse(tmp_path / "out", "--gpus", "2", "--only", "killed")
    table = (tmp_path / "out" / "table.md").read_text()
    assert "| a trainer is killed | exit code 1, the cause is named, nothing was left in /dev/shm" in table
    assert "| GPUs | none: a rehearsal on the CPU |" in table
    assert table in done.stdout
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [1, 2])
def test_all_parts_are_rehearsed(tmp_path, gpus):
    done = rehearse(tmp_path / "out", "--gpus", str(gpus), "--minutes", "30")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("machine", sick.SICK, ids=lambda machine: machine.name)
def test_a_machine_that_is_sick_is_red_in_the_right_part(tmp_path, machine):
    """And one that is healthy is green."""
    assert list(sick.check(machine, tmp_path / "out").wrong()) == []


@pytest.mark.slow
def test_what_is_no_fault_is_refused():
    environment = {**os.environ, "PYTHONPATH": str(sick.ROOT / "tests" / "simulator")}
    for said in ("hung:0-1", "hang:0", "full:disk", "slow:0", "driver:1", "hang:0-1@x"):
        done = subprocess.run(
            [sys.executable, "-c", "import torch"],
            env={**environment, "GSPLIT_SIM_FAULT": said},
            capture_output=True,
            text=True,
            check=False,
        )
        says(done.stderr, "GSPLIT_SIM_FAULT, tests/simulator/README.md", said)
