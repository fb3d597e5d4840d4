"""The comparison of systems: search, statistics and noise on made-up numbers; processes; mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from support.commands import python
from support.messages import line_with, says

from experiments.baselines.workload import STAGES, Epoch, Order, Outcome, Setting
from experiments.compare import pairs, search, systems
from experiments.compare.config import CompareConfig
from experiments.shared import processes, rounds
from gsplit import cli
from gsplit.config.train import TrainConfig

ROOT = Path(__file__).parent.parent.parent.parent
CHOICES = {"memory": ("as it comes", "kept"), "form": ("a", "b", "c"), "workers": (0, 1, 2)}


def epoch(seconds, **changes):
    stages = {**dict.fromkeys(STAGES, 0.0), "computing": seconds / 2}
    counts = {"edges": 10, "input_rows": 3, "loaded_bytes": 12, "reduced_bytes": 8, "loss": 1.0}
    return Epoch(seconds=seconds, stages=stages, **{**counts, **changes})


def in_round(*seconds, calibration_s=1.0):
    used = processes.Used(wall_s=1.0, others_share=0.25, memory=None)
    ran = systems.Ran(outcome=Outcome(epochs=[epoch(s) for s in seconds]), used=used)
    return pairs.InRound(calibration_s=calibration_s, ran=ran)


# The search.


def test_the_search_keeps_what_is_fastest_of_each_choice_in_turn():
    taken = {"as it comes": 3.0, "kept": 1.0, "a": 2.0, "b": 4.0, "c": 1.5, 0: 5.0, 1: 7.0, 2: 4.5}

    def measure(setting):
        return taken[setting.memory] + taken[setting.form] + taken[setting.workers]

    found = search.search(CHOICES, measure)
    assert found.best == Setting(memory="kept", form="c", workers=2)
    assert [(one.setting.memory, one.setting.form, one.setting.workers) for one in found.tried] == [
        ("as it comes", "a", 0),
        ("kept", "a", 0),
        ("kept", "b", 0),
        ("kept", "c", 0),
        ("kept", "c", 1),
        ("kept", "c", 2),
    ]
    assert [one.seconds for one in found.tried] == [10.0, 8.0, 10.0, 7.5, 9.5, 7.0]


def test_a_setting_that_does_not_work_is_never_chosen():
    def measure(setting):
        if setting.form == "a":
            raise processes.RunFailed("its blocks are corrupt")
        return 2.0 if setting.form == "b" else 1.0

    found = search.search(CHOICES, measure)
    assert found.best.form == "c"
    assert {one.reason for one in found.tried if one.seconds is None} == {"its blocks are corrupt"}


def test_where_nothing_works_there_is_no_setting_and_the_reasons_are_kept():
    def measure(_):
        raise processes.RunFailed("no memory")

    found = search.search(CHOICES, measure)
    assert found.best is None
    assert len(found.tried) == 6
    assert {one.reason for one in found.tried} == {"no memory"}


def test_of_two_as_fast_the_default_stays():
    assert search.search(CHOICES, lambda _: 1.0).best == Setting(memory="as it comes", form="a", workers=0)


# Statistics.


def test_the_first_epoch_is_dropped_where_there_are_more():
    assert pairs.middle(Outcome(epochs=[epoch(9.0), epoch(2.0), epoch(4.0)]), pairs.seconds_of) == 3.0
    assert pairs.middle(Outcome(epochs=[epoch(9.0)]), pairs.seconds_of) == 9.0


def test_ratios_are_of_one_round_and_then_the_median_is_taken():
    rounds = [
        {"gsplit": in_round(9, 1.0), "dgl": in_round(9, 2.0)},
        {"dgl": in_round(9, 30.0), "gsplit": in_round(9, 10.0, calibration_s=1.2)},
        {"gsplit": in_round(9, 2.0), "dgl": in_round(9, 8.0)},
        {"dgl": in_round(9, 8.0)},  # ours failed
    ]
    row = pairs.ratio_row(rounds, "dgl", "gsplit", "epoch")
    assert row == {
        "what": "epoch",
        "system": "dgl",
        "over": "gsplit",
        "ratio": 3.0,
        "ratio_min": 2.0,
        "ratio_max": 4.0,
        "inverse": pytest.approx(1 / 3),
        "rounds": 3,
        "quiet_ratio": 3.0,  # of 2 and 4: the second round was noisy
        "quiet_rounds": 2,
    }
    assert pairs.ratio_row(rounds, "dgl", "gsplit", "computing")["ratio"] == 3.0
    assert pairs.ratio_row(rounds, "pyg", "gsplit", "epoch") is None
    assert [row["quiet"] for row in pairs.noise_rows(rounds)] == [True, False, True, True]
    assert pairs.noise_rows(rounds)[1]["order"] == ["dgl", "gsplit"]


def test_a_round_is_quiet_within_15_percent_of_the_median():
    assert rounds.quiet_rounds([[1.0, 1.14], [1.0, 1.16], [0.86], [0.84]]) == [True, False, True, False]


@pytest.mark.slow  # it is a matter of time, which other tests take
def test_the_calibration_takes_longer_while_others_take_the_cores():
    alone = rounds.calibrate()
    code = "import time\nend = time.time() + 30\nwhile time.time() < end: pass"
    others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3 * rounds.cores())]
    try:
        time.sleep(0.5)
        assert rounds.calibrate() > alone * (1 + rounds.MOST_DEVIATION)
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_an_epoch_is_the_median_of_the_rounds_with_its_stages():
    row = pairs.epoch_row([{"dgl": in_round(9, s)} for s in (1.0, 5.0, 2.0)], "dgl")
    assert (row["epoch_s"], row["epoch_min_s"], row["epoch_max_s"], row["rounds"]) == (2.0, 1.0, 5.0, 3)
    assert (row["computing_s"], row["sampling_s"], row["edges"]) == (1.0, 0.0, 10)


def test_the_best_epoch_is_the_first_of_equals_by_validation():
    epochs = [epoch(1, valid_accuracy=accuracy) for accuracy in (0.1, 0.3, 0.3, 0.2)]
    rows = pairs.accuracy_rows("dgl", Outcome(epochs=epochs), 2.0)
    assert pairs.best_of(rows)["epoch"] == 2
    assert [row["seconds"] for row in rows] == [2.0, 4.0, 6.0, 8.0]
    assert pairs.best_of(pairs.accuracy_rows("dgl", Outcome(epochs=[epoch(1)]), 2.0)) is None


def test_an_epoch_of_ours_is_what_its_line_says():
    stages = {"sample": 1, "load": 2, "wait": 3, "forward": 4, "backward": 5, "reduce": 6, "step": 7}
    traffic = {
        **{"sampled_edges": 11, "level_0_vertices": 12, "host_to_device_bytes": 13, "all_reduce_bytes": 14},
        **{"exchange_forward_bytes": 1, "exchange_backward_bytes": 10, "device_to_device_bytes": 100},
    }
    record = {"epoch": 2, "seconds": 30, "stages": stages, "traffic": traffic, "loss": 0.5, "valid_accuracy": 0.7}
    got = systems.epoch_of(record, test_accuracy=0.6, tested=2)
    assert got.stages == {"sampling": 0, "loading": 0, "computing": 16, "reducing": 6, "waiting": 3}
    assert got.hidden == {"sampling": 1, "loading": 2}
    assert (got.edges, got.input_rows, got.loaded_bytes) == (11, 12, 13)
    assert (got.exchanged_bytes, got.reduced_bytes) == (111, 14)
    assert got.test_accuracy == 0.6
    assert systems.epoch_of(record, test_accuracy=0.6, tested=1).test_accuracy is None


def test_orders_and_outcomes_come_back_as_they_went(tmp_path):
    workload = CompareConfig(fan_out=(3, 2)).workload(tmp_path)
    order = Order(system="dgl", workload=workload, setting=Setting(form="a", workers=2))
    order.write(tmp_path)
    assert Order.read(tmp_path) == order
    outcome = Outcome(epochs=[epoch(1.0, test_accuracy=0.5)], fault=None)
    outcome.write(tmp_path / "outcome.json")
    assert Outcome.read(tmp_path / "outcome.json") == outcome


# Processes.


def words_of(code):
    return [sys.executable, "-c", code]


def test_a_run_has_its_environment_and_its_memory_is_watched(tmp_path):
    code = "import os, time; data = bytes(80 << 20); print(os.environ['MALLOC_TRIM_THRESHOLD_']); time.sleep(1.5)"
    environment = processes.environment("kept", 3)
    assert environment["OMP_NUM_THREADS"] == "3"
    used = processes.run(words_of(code), environment, tmp_path, limit_s=60, watched_until=lambda: False)
    assert (tmp_path / "stdout").read_text() == "4000000000\n"
    assert used.memory.rss_bytes > 80 << 20
    assert used.memory.pss_bytes > 80 << 20
    assert used.wall_s >= 1.5
    assert 0 <= used.others_share <= 1
    assert "MALLOC_TRIM_THRESHOLD_" not in processes.environment("as it comes", 1)


CHILD = (
    "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
)


def is_gone(pid):
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
def test_a_run_that_takes_too_long_is_ended_with_its_children(tmp_path):
    code = f"{CHILD}; print(child.pid, flush=True); time.sleep(60)"
    with pytest.raises(processes.RunFailed, match=line_with("2 s")):
        processes.run(words_of(code), processes.environment("as it comes", 1), tmp_path, limit_s=2)
    assert is_gone(int((tmp_path / "stdout").read_text()))


def test_a_run_leaves_no_child_behind(tmp_path):
    code = f"{CHILD}; print(child.pid, flush=True)"
    processes.run(words_of(code), processes.environment("as it comes", 1), tmp_path, limit_s=60)
    assert is_gone(int((tmp_path / "stdout").read_text()))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ValueError('too few')", "exit code 1, ValueError: too few"),
        ("import sys; sys.exit(3)", "exit code 3"),
        (
            "import sys; print('error: no such file', file=sys.stderr); sys.exit(2)",
            "exit code 2, error: no such file",
        ),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9"),
    ],
)
def test_a_run_that_fails_says_why_in_a_line(code, message, tmp_path):
    with pytest.raises(processes.RunFailed, match=line_with(message)):
        processes.run(words_of(code), processes.environment("as it comes", 1), tmp_path, limit_s=60)


# Mistakes.


def test_a_mistake_is_one_line_and_exit_code_2(tmp_path):
    done = python("-m", "experiments.compare", "--systems", "dlg", cwd=ROOT, code=2)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    says(done.stderr, "error:", "dlg")


def test_what_is_missing_has_a_reason(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    says(systems.missing("dgl"), "DGL")
    says(systems.missing("pyg"), "PyG")
    says(systems.missing("torch-quiver"), "torch-quiver")
    assert systems.missing("gsplit") is None


def test_trainers_share_the_cores_out_unless_told(monkeypatch, tmp_path):
    monkeypatch.setattr("experiments.compare.config.cores", lambda: 7)
    config = CompareConfig(gpus=2)
    assert config.workload(tmp_path).threads == 3
    assert replace(config, threads=5).workload(tmp_path).threads == 5
    assert config.workload(tmp_path).share == 2048


# A run of a contender.


def contender_that(code, tmp_path):
    system = systems.System(
        name="made-up",
        label="",
        choices={},
        command=lambda contender, graph, folder: [*words_of(code), str(folder / "outcome.json")],
        read=lambda folder, _: Outcome.read(folder / "outcome.json"),
    )
    return systems.Contender(system=system, workload=CompareConfig().workload(tmp_path), setting=Setting())


@pytest.mark.parametrize("code", [0, 1])
def test_corrupt_blocks_are_the_reason_even_where_they_crash_a_process(code, tmp_path):
    outcome = json.dumps({"epochs": [], "fault": "a neighbour was drawn twice"})
    contender = contender_that(f"import sys; open(sys.argv[1], 'w').write({outcome!r}); sys.exit({code})", tmp_path)
    with pytest.raises(processes.RunFailed, match=r"^its blocks are corrupt: a neighbour was drawn twice$"):
        systems.run(contender, None, tmp_path / "run", limit_s=60)


def test_a_strategy_is_flags_of_our_command(tmp_path):
    for name, cache, wanted in (
        ("pagraph", 10, ["--cache-size", "10%", "--strategy", "data", "--cache", "replicated"]),
        ("quiver", 0, ["--strategy", "data", "--cache", "none"]),
        ("gsplit", 0, ["--checkpoint-every", "0"]),
        ("gsplit", 5, ["--cache-size", "5%"]),
    ):
        system = systems.system_of(name)
        workload = CompareConfig().workload(tmp_path)
        contender = systems.Contender(system=system, workload=workload, setting=Setting(workers=1), cache=cache)
        graph = systems.Graph(store=tmp_path, layout=tmp_path / "layout", facts={})
        command = system.command(contender, graph, tmp_path)
        assert command[-len(wanted) :] == wanted
        assert cli.parse(TrainConfig, command[4:], prog="test").samplers == 1
