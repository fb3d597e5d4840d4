"""The experiment counts what it is there to count: each thing it must see is planted, and nothing else is seen."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
import torch

from experiments.faults import __main__ as faults
from experiments.faults import cases as case_table
from experiments.faults import command as commands
from experiments.faults import inputs, launches
from experiments.faults.inputs import bad_lines, problems_of, run_cases
from experiments.faults.runs import DISK_FULL, SIGNALS, VICTIMS, Undisturbed, make_fault
from experiments.shared import same_run
from gsplit.runs import checkpoint

SIGNATURE = {"signature": {}, "epoch": 1}
POSITION = {"store_checksum": "", "layout_checksum": "", "trainers": 2, "batch": 0, "ahead": []}


@pytest.fixture
def material(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # making a case goes elsewhere
    folder = tmp_path / "material"
    (folder / "coo").mkdir(parents=True)
    (folder / "edges.csv").write_text("0,1\n1,2\n")
    np.save(folder / "coo" / "edge_index.npy", np.array([[0, 1], [1, 2]]))
    return folder


@pytest.fixture
def case(material, tmp_path):
    return case_table.make_case(0, 0, material, tmp_path)


def test_a_case_depends_on_its_number_and_the_seed_alone(material, tmp_path):
    sound = case_table.contents(material)

    def all_of(seed):
        cases = [case_table.make_case(number, seed, material, tmp_path) for number in range(40)]
        return [(case.words, case.damages, case.before, case.whole) for case in cases]

    assert all_of(1) == all_of(1)
    assert all_of(1) != all_of(2)
    assert case_table.contents(material) == sound  # copies are damaged, never the material
    assert len({str(damages) for _, damages, _, _ in all_of(1)}) > 30


def said(case, code, stderr, plant=lambda folder: None):
    plant(case.folder)
    return set(problems_of(case, code, stderr))


ERROR = "error: edges.csv is empty\n"


@pytest.mark.parametrize(
    ("code", "stderr", "plant", "problems"),
    [
        (0, "", None, set()),
        (0, "warning: some\n", lambda f: (f / "out" / "store").mkdir(), set()),
        (2, "info: some\n" + ERROR, None, set()),
        (1, "Traceback (most recent call last):\nValueError\n", None, {"tracebacks"}),
        (1, "", None, {"tracebacks"}),
        (None, "", None, {"hangs"}),
        (-11, "", None, {"crashes"}),
        (2, ERROR, lambda f: (f / "out" / "store").mkdir(), {"partial outputs"}),
        (0, "", lambda f: (f / "out" / ".store.x1").mkdir(), {"partial outputs"}),
        (2, ERROR, lambda f: (f / "edges.csv").write_text("other"), {"changed inputs"}),
        (2, ERROR, lambda f: (f / "canary").touch(), {"code executed"}),
        (2, "", None, {"bad messages"}),
        (2, ERROR * 2, None, {"bad messages"}),
        (2, ERROR + "UserWarning: x\n", None, {"bad messages"}),
        (2, "error: \x1b[31m\n", None, {"bad messages"}),
        (2, f"error: {'x' * 9999}\n", None, {"bad messages"}),
    ],
)
def test_what_is_planted_in_a_command_is_counted(case, code, stderr, plant, problems):
    (case.folder / "edges.csv").write_text("0,1\n")
    case.before = case_table.contents(case.folder)
    assert said(case, code, stderr, plant or (lambda folder: None)) == problems
    assert bad_lines(ERROR) == ""


def test_commands_that_hang_die_or_fail_are_ended_and_counted(material, tmp_path, monkeypatch):
    def command(case):
        if case.number == 0:
            time.sleep(60)
        if case.number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if case.number == 2:
            raise ValueError("planted")
        return 0

    monkeypatch.setattr(inputs, "_command", command)
    monkeypatch.setattr(inputs, "LIMIT_S", 3.0)
    cases = (case_table.make_case(number, 0, material, tmp_path) for number in range(4))
    outcomes = {outcome.case.number: outcome for outcome in run_cases(cases, 2)}
    assert [outcomes[number].code for number in range(4)] == [None, -9, 1, 0]
    assert [set(outcomes[number].problems) for number in range(4)] == [{"hangs"}, {"crashes"}, {"tracebacks"}, set()]
    inputs.remove(outcomes[0].case)
    assert not list(tmp_path.glob("0-*"))


def test_faults_go_through_all_signals_and_victims():
    made = [make_fault(number, 0) for number in range(100)]
    assert made == [make_fault(number, 0) for number in range(100)]
    kinds = Counter((fault.kind, fault.victim) for fault in made)
    assert kinds.keys() == {(which.name, who) for which in SIGNALS for who in VICTIMS} | {(DISK_FULL, "all")}
    assert kinds[DISK_FULL, "all"] == 20
    assert min(fault.moment for fault in made) < 0.1
    assert max(fault.moment for fault in made) > 0.9


def test_a_moment_is_told_from_the_last_checkpoint(tmp_path):
    run = Undisturbed(run=tmp_path, checkpoints=[(4.0, (0, 2)), (5.0, (0, 4))], seconds=10.0)
    assert run.moment(0.3) == (None, 3.0)
    assert run.moment(0.45) == ((0, 2), 0.5)
    assert run.moment(0.9) == ((0, 4), 4.0)


def finished(folder, *, weight=1.0, edges=5):
    """A run as it lies there when it is over."""
    folder.mkdir(parents=True)
    state = {"model": {"w": torch.tensor([weight])}, "optimizer": {"state": {}}, "best": None}
    checkpoint.save_state(folder, checkpoint.CHECKPOINT, state, {**SIGNATURE, **POSITION})
    checkpoint.save_state(folder, checkpoint.MODEL, state["model"], SIGNATURE)
    (folder / "summary.json").write_text(json.dumps({**dict.fromkeys(same_run.SAME_KEYS, 1), "metrics": []}))
    line = {"kind": "mini-batch", "epoch": 1, "batch": 0, "trainer": 0, "traffic": {"edges": edges}, "stages": 0.5}
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    return folder


def test_runs_that_differ_in_the_last_bit_are_told_apart(tmp_path):
    run = finished(tmp_path / "a")
    assert same_run.difference(run, finished(tmp_path / "b")) == ""
    other = finished(tmp_path / "c", weight=float(np.nextafter(np.float32(1), np.float32(2))))
    assert same_run.difference(run, other) == "model of the checkpoint"
    assert same_run.difference(run, finished(tmp_path / "d", edges=6)) == "the counts of mini-batches"


@pytest.mark.parametrize(
    ("planted", "left"),
    [
        ("tmp-1/x", []),
        (".run-replaced-1/config.json", [".run-replaced-1"]),
        ("run/.checkpoint.json.77", [".checkpoint.json.77"]),
        ("run/checkpoint-ffffffffffffffff.pt", ["checkpoint-ffffffffffffffff.pt"]),
        ("run/old-run", ["old-run"]),
    ],
)
def test_files_that_are_left_are_counted(tmp_path, planted, left):
    finished(tmp_path / "run")
    assert commands.files_left(tmp_path, finished=True) == []
    path = tmp_path / planted
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert commands.files_left(tmp_path, finished=True) == left


def test_processes_and_shared_memory_that_are_left_are_counted(tmp_path, monkeypatch):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", "input()"], env=environment, stdin=subprocess.PIPE)
    monkeypatch.setattr(commands, "SHARED", tmp_path)
    monkeypatch.setattr(commands, "SHARED_LIMIT_S", 0.0)
    try:
        assert [each.pid for each in commands.processes_of(tmp_path)] == [process.pid]
        assert commands.processes_of(tmp_path / "other") == []
    finally:
        process.communicate(b"\n")
    assert commands.processes_of(tmp_path) == []
    with (tmp_path / "torch_1").open("w"):
        assert commands.shared_left(set()) == []  # somebody has it open
    assert commands.shared_left(set()) == [str(tmp_path / "torch_1")]
    assert commands.shared_left({"torch_1"}) == []
    assert commands.temporary_left(tmp_path) == ["torch_1"]


@pytest.mark.parametrize(("count", "code"), [(0, 0), (1, 1)])
def test_the_exit_code_says_whether_anything_was_counted(tmp_path, monkeypatch, capsys, count, code):
    result = {"cases": 3, "counted": {"hangs": 0, "crashes": count}, "ends": {"2": 3}, "slowest_s": 1.0, "found": []}
    monkeypatch.setitem(faults.KINDS, "inputs", lambda config, folder: result)
    with pytest.raises(SystemExit) if code else contextlib.nullcontext() as stop:
        faults.command(["--inputs", "3", "--json", str(tmp_path / "f.json")])
    assert code == (stop.value.code if stop else 0)
    assert json.loads((tmp_path / "f.json").read_text())["inputs"] == result
    assert f"crashes {count}" in capsys.readouterr().out


def test_launches_end_in_all_ways_with_two_and_four_trainers():
    drawn = [launches.make_launch(number, 0) for number in range(64)]
    assert {(each.end, each.trainers, each.samplers) for each in drawn} == set(
        itertools.product(launches.CODES, (2, 4), (0, 1))
    )
    assert [each.end for each in drawn[:4]] == list(launches.CODES)


@pytest.mark.slow
def test_a_launch_whose_trainer_dies_is_over_with_all_its_processes(tmp_path):
    faults.make_layout(tmp_path, parts=4)
    case = launches.Launch(number=0, trainers=2, samplers=1, end="death", share=0.0)
    outcome = launches.launch(case, tmp_path / "layout", tmp_path / "0", 0.0)
    assert (outcome.code, outcome.problems) == (1, {})


@pytest.mark.slow
def test_processes_that_outlive_a_launch_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(launches, "LATE_S", 0.0)
    faults.make_layout(tmp_path, parts=4)
    case = launches.Launch(number=0, trainers=2, samplers=0, end="death", share=0.0)
    outcome = launches.launch(case, tmp_path / "layout", tmp_path / "0", 0.0)
    assert outcome.problems.keys() == {"late"}
