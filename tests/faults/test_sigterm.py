"""SIGTERM, as Slurm, docker stop and systemd send it, does what Ctrl-C does, and nothing is left."""

from __future__ import annotations

import os
import signal

import pytest
from support.commands import FLAGS, FOR_EVER
from support.runs import config_for

import gsplit
from gsplit.runs import checkpoint


def test_a_run_that_is_terminated_with_all_its_processes_writes_a_checkpoint(layout, tmp_path, train):
    """As Slurm does it; and twice, as timeout(1) does."""
    run = tmp_path / "folder" / "run"
    run.mkdir(parents=True)
    (run / "config.json").write_text('{"fan_out": [5, 5]}')
    (run / "summary.json").write_text("of the run that is replaced")
    no_checkpoint = ["--checkpoint-every", "0", "--checkpoint-every-batches", "0"]
    command = train(layout.path, "--out", run, "--overwrite", *FLAGS, *FOR_EVER, *no_checkpoint)
    command.wait_until((run / "metrics.jsonl").exists)
    processes = command.children
    for process in [*command.trainers, *command.samplers]:
        process.terminate()
    command.process.terminate()
    command.process.terminate()
    code, out, err = command.ends()
    assert code == 143
    assert err.strip().splitlines()[-1] == "terminated"
    assert "was ended by" not in err
    assert "--resume" in out.strip().splitlines()[-1]
    command.assert_nothing_left(processes)
    assert os.listdir(run.parent) == ["run"]
    assert checkpoint.describe_state(run, checkpoint.CHECKPOINT)["epoch"] >= 1  # written when it was stopped
    assert not (run / "summary.json").exists()


def test_a_prediction_that_is_terminated_leaves_nothing(layout, tmp_path, train, undisturbed):
    (tmp_path / "out").mkdir()
    command = train(
        undisturbed, layout.path, "--out", tmp_path / "out" / "o.npy", "--device", "cpu", module="gsplit.predict"
    )
    command.wait_until(lambda: len(command.children) > 1 and os.listdir(tmp_path / "out"))
    processes = command.children
    command.process.send_signal(signal.SIGTERM)
    code, out, err = command.ends()
    assert (code, out) == (143, "")
    assert err.strip().splitlines()[-1] == "terminated"
    assert "Traceback" not in err
    command.assert_nothing_left(processes)
    assert os.listdir(tmp_path / "out") == []


def begin_training(folder, layout, trained):
    gsplit.train(config=config_for(layout.path, folder / "run", samplers=0))


def begin_predicting(folder, layout, trained):
    gsplit.predict(trained, layout.path, out=folder / "o.npy", device="cpu")


@pytest.mark.parametrize("begin", [begin_training, begin_predicting])
def test_a_script_that_is_terminated_leaves_nothing(layout, tmp_path, undisturbed, monkeypatch, begin):
    """Without the command line around it."""

    def terminated(*_, **__):
        assert os.listdir(tmp_path) != []
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("gsplit.launch.start.start", terminated)
    monkeypatch.setattr("gsplit.predict.api.start", terminated)
    with pytest.raises(SystemExit) as end:
        begin(tmp_path, layout, undisturbed)
    assert end.value.code == 143
    assert os.listdir(tmp_path) == []
