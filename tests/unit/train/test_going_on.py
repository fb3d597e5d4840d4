"""What the same command line is, given again: a run that goes on, one that begins, or one that is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.messages import line_with

from gsplit import TrainConfig
from gsplit.config.train import save_configurations
from gsplit.errors import InputError
from gsplit.runs import checkpoint
from gsplit.runs.starts import Starter, started
from gsplit.train import going_on
from gsplit.train.going_on import goes_on, starter_at

JOB, AGAIN = {"torchrun": "a"}, Starter(jobs={"torchrun": "a"}, again=True)
DESCRIBED = {"signature": {}, "store_checksum": "", "layout_checksum": "", "trainers": 1, "ahead": []}


@pytest.fixture
def made(tmp_path):
    """Makes a run with some files, of a job; the configuration as it was asked for."""

    def make(*files, job=JOB):
        config = TrainConfig(layout=tmp_path / "layout", out=tmp_path / "run", threads=3, precision="32")
        config.out.mkdir(exist_ok=True)
        save_configurations(config.out, config, config, ())
        if job is not None:
            with started(config.out, Starter(jobs=job)):
                pass
        for file in files:
            (config.out / file).write_text("{}")
        if "checkpoint.json" in files:
            at(config.out, 2)
        return replace(config, threads=0, precision="auto")

    return make


def at(run, epoch, batch=0):
    """Let the checkpoint of a run say how far it is."""
    about = {"version": checkpoint.VERSION["checkpoint"], "file": "f", "sha256": "", **DESCRIBED}
    (run / "checkpoint.json").write_text(json.dumps({**about, "epoch": epoch, "batch": batch}))


def test_a_run_with_a_checkpoint_goes_on(made, caplog):
    caplog.set_level("INFO", "gsplit")
    config = made("checkpoint.json")
    asked = replace(config, continue_=True, init_from=config.out.with_name("other"), profile=True)
    on = goes_on(asked)
    assert (on.resume, on.init_from, on.profile) == (config.out, None, True)
    assert (on.threads, on.precision) == (3, "32")  # as its last start decided
    assert "from its checkpoint after epoch 2" in caplog.text
    assert goes_on(replace(asked, threads=2)).threads == 2
    assert goes_on(config, AGAIN).resume == config.out
    assert goes_on(config).resume is None
    assert goes_on(replace(config, continue_=False), AGAIN).resume is None


def test_a_run_without_a_checkpoint_begins_in_its_place(made, tmp_path):
    config = replace(made(), continue_=True)
    assert not goes_on(config).overwrite  # it has saved nothing
    made("model.json")
    assert goes_on(config).overwrite
    made("summary.json")  # it has ended, and wanted no checkpoints
    assert not goes_on(config).overwrite
    nowhere = replace(config, out=tmp_path / "nowhere")
    assert goes_on(nowhere) == nowhere


@pytest.mark.parametrize(
    ("job", "starter", "goes"),
    [
        (JOB, AGAIN, True),
        ({"torchrun": "b"}, AGAIN, False),
        (None, AGAIN, False),  # of trainers that gsplit train started
        (JOB, Starter(again=True), True),  # nobody knows
        (JOB, Starter(jobs=JOB), False),  # the first start of a job that has a name twice
    ],
)
def test_a_restart_goes_on_with_the_run_of_its_job_alone(made, job, starter, goes):
    config = made("checkpoint.json", job=job)
    assert (goes_on(config, starter).resume is not None) is goes
    assert goes_on(replace(config, continue_=True), starter).resume is not None


def test_what_is_to_be_replaced_is_gone_on_with_only_where_this_job_made_it(made):
    config = replace(made("checkpoint.json"), overwrite=True)
    assert goes_on(config, AGAIN).resume is not None
    unknown = goes_on(config, Starter(again=True))
    assert (unknown.resume, unknown.overwrite) == (None, True)
    with pytest.raises(InputError, match=line_with("--continue, --overwrite")):
        replace(config, continue_=True)


class Meeting:
    """Of trainer 0 on ``here``, with hosts that have seen the given checkpoints of the run."""

    def __init__(self, *seen, restarts=0, begun=None, served=False):
        self.place = SimpleNamespace(hosts=1 + len(seen), here=2, name="here", served=served)
        self.names = {2: "host1", 4: "host2"}
        self.restarts, self._seen, self._begun = restarts, seen, begun

    def was_begun(self, _):
        return self._begun

    def job(self):
        return JOB

    def hear(self, key):
        return self._seen[int(key.removeprefix("seen/")) - 1]


def test_trainer_0_must_have_the_last_checkpoint(made):
    config = made("checkpoint.json")
    earlier, later = {"epoch": 2, "batch": 0}, {"epoch": 2, "batch": 7}
    assert starter_at(Meeting(earlier, None, restarts=1), config) == Starter(jobs=JOB, again=True, silence_s=10.0)
    line = line_with("host2, after mini-batch 7 of epoch 3, here, after epoch 2, --out where all hosts see it")
    for asked in (config, replace(config, continue_=True), replace(config, resume=config.out, out=None)):
        with pytest.raises(InputError, match=line):
            starter_at(Meeting(earlier, later, restarts=int(asked is config)), asked)
    assert not starter_at(Meeting(later), config).again  # as at a first start: it exists already
    starter_at(Meeting(later, restarts=1), replace(config, continue_=False))


@pytest.mark.parametrize(
    ("meeting", "why"),
    [
        (Meeting(restarts=1), "begun on another host"),
        (Meeting(begun="host1", served=True), "begun on host1"),
        (Meeting(None, begun="host1", served=True, restarts=1), "begun on host1"),
        (Meeting(begun="here", served=True, restarts=1), None),  # it had saved nothing, so nothing was left of it
        (Meeting(served=True, restarts=1), None),  # it was not begun before
        (Meeting(None), None),
    ],
)
def test_a_new_trainer_0_without_the_run_is_refused(tmp_path, meeting, why):
    config = TrainConfig(layout=tmp_path / "layout", out=tmp_path / "run")
    if why is None:
        starter_at(meeting, config)
        return
    with pytest.raises(InputError, match=line_with(f"{why}, trainer 0 is on here now, no, {config.out}")):
        starter_at(meeting, config)
    starter_at(meeting, replace(config, overwrite=True))
    assert going_on.goes_on(config, AGAIN) == config
