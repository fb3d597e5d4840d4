"""Law 6: a run that is killed, or stopped, goes on from its last checkpoint as if nothing had happened."""

from __future__ import annotations

import signal

import pytest
from support.commands import BATCHES, FLAGS, FOR_EVER, PATIENCE_S, WHOLE, assert_same_run
from support.messages import says
from support.runs import records

from experiments.shared.same_run import difference
from gsplit.runs import checkpoint


def test_killed_in_mid_epoch_and_resumed_is_bit_identical(layout, tmp_path, train, undisturbed):
    run = tmp_path / "killed"
    command = train(layout.path, "--out", run, *FLAGS)
    command.wait_for_checkpoint(run, 1, 4)
    processes = command.children
    command.kill()
    command.assert_nothing_left(processes)  # children go with the launcher
    at = checkpoint.describe_state(run, checkpoint.CHECKPOINT)
    assert (at["epoch"], at["batch"]) < (2, BATCHES)
    assert at["batch"] % BATCHES != 0, "killed between epochs; the test wants the middle of one"
    assert not (run / "summary.json").exists()

    # Other samplers than before: whose they are decides nothing.
    code, _, err = train("--resume", run, "--samplers", "1").ends()
    assert code == 0, err
    assert_same_run(run, undisturbed)


def test_the_whole_graph_killed_and_resumed_is_bit_identical(layout, tmp_path, train, train_here):
    flags = [*WHOLE, "--epochs", "12", "--algorithm", "columns", "--model", "gcn", "--norm", "batch"]
    whole, run = tmp_path / "whole", tmp_path / "killed"
    command = train(layout.path, "--out", run, *flags)
    command.wait_for_checkpoint(run, 2, 0)
    command.kill()
    assert not (run / "summary.json").exists()
    train_here("--resume", run)
    train_here(layout.path, "--out", whole, *flags)
    # All else is compared before; whoever starts again loads the features again, and takes the first sum again.
    assert difference(run, whole) == "traffic of the summary"


LINKS = "--task links --pairs edges --epoch-pairs 600 --negatives uniform:1,in-batch --score mlp --loss softmax"


def test_links_killed_in_mid_epoch_and_resumed_are_bit_identical(layout, tmp_path, train, train_here):
    flags = [*FLAGS, *LINKS.split()]
    whole, run = tmp_path / "whole", tmp_path / "killed"
    train_here(layout.path, "--out", whole, *flags)
    command = train(layout.path, "--out", run, *flags)
    command.wait_for_checkpoint(run, 1, 4)
    command.kill()
    assert checkpoint.describe_state(run, checkpoint.CHECKPOINT)["batch"] % BATCHES != 0
    train_here("--resume", run)
    assert_same_run(run, whole)


RECIPE = "--optimizer sgd --momentum 0.9 --lr-schedule plateau --lr-patience 0 --accumulate 3 --clip-grad-norm 0.5"
SCORES = "--evaluate sampled --validate-fan-out 3,3 --validate-vertices 40 --validate-every-batches 2"


@pytest.mark.slow
def test_micro_batches_with_shares_and_caches_resume_as_well(layout, tmp_path, train, train_here):
    """What is more to remember: targets by share, normalisation over all trainers, counts by place; a recipe's state.

    Steps of several mini-batches, their momentum, and rates that go by scores in the middle of epochs.
    """
    more = "--epochs 2 --strategy data --cache replicated --cache-size 10% --model gcn --norm batch"
    flags = [*FLAGS, *f"{more} {RECIPE} {SCORES}".split()]
    whole, run = tmp_path / "whole", tmp_path / "killed"
    train_here(layout.path, "--out", whole, *flags)
    command = train(layout.path, "--out", run, *flags, "--profile")
    command.wait_for_checkpoint(run, 1, 4)
    processes = command.children
    command.kill()
    command.assert_nothing_left(processes)
    train_here("--resume", run)
    assert_same_run(run, whole)
    assert not list(run.glob(".trace*"))


def test_ctrl_c_ends_an_iteration_writes_a_checkpoint_and_exits_130(layout, tmp_path, train, train_here, undisturbed):
    run = tmp_path / "stopped"
    # No periodic checkpoints: the one that is there was written for the interruption.
    command = train(layout.path, "--out", run, *FLAGS, "--checkpoint-every-batches", "0")
    command.wait_for_checkpoint(run, 1, 0)
    processes = command.children
    command.process.send_signal(signal.SIGINT)
    code, out, err = command.ends()
    assert code == 130
    assert "stopping after the current mini-batch" in err
    assert "Traceback" not in err
    says(out.strip().splitlines()[-1], "--resume")
    command.assert_nothing_left(processes)
    at = checkpoint.describe_state(run, checkpoint.CHECKPOINT)
    says(out, f"mini-batch {at['batch']} of epoch {at['epoch'] + 1}")

    train_here("--resume", run, "--checkpoint-every-batches", "2")
    assert_same_run(run, undisturbed)


@pytest.mark.slow
def test_ctrl_c_that_also_ends_who_reads_the_output_stops_the_run_as_well(layout, tmp_path, train):
    """As in ``python -m gsplit.train ... 2>&1 | tee log``: the terminal interrupts both."""
    run = tmp_path / "run"
    command = train(
        layout.path, "--out", run, *FLAGS, *FOR_EVER, "--checkpoint-every", "0", "--checkpoint-every-batches", "0"
    )
    command.wait_until((run / "metrics.jsonl").exists)
    processes = command.children
    command.process.stdout.close()
    command.process.stderr.close()
    command.process.send_signal(signal.SIGINT)
    assert command.process.wait(PATIENCE_S) == 130
    command.assert_nothing_left(processes)
    assert checkpoint.describe_state(run, checkpoint.CHECKPOINT)["epoch"] >= 1  # written when it was stopped


def test_a_second_ctrl_c_ends_at_once(layout, tmp_path, train):
    command = train(layout.path, "--out", tmp_path / "run", *FLAGS, *FOR_EVER)
    command.wait_for_checkpoint(tmp_path / "run", 0, 2)
    processes = command.children
    leader = command.trainers[0]
    leader.suspend()  # it will not stop by itself
    command.process.send_signal(signal.SIGINT)
    command.wait_for_error("Ctrl-C again")
    command.process.send_signal(signal.SIGINT)
    code, _, err = command.ends(30)
    assert code == 130
    assert "Traceback" not in err
    command.assert_nothing_left(processes)


def test_what_was_trained_ahead_is_not_trained_again_and_what_was_passed_over_is_made_up(
    layout, tmp_path, train, train_here, undisturbed
):
    """With --order ready a checkpoint may hold later mini-batches than it lacks; here it lacks the one of a sampler
    that hangs."""
    run = tmp_path / "run"
    flags = [*FLAGS, "--order", "ready", "--checkpoint-every-batches", "1"]
    command = train(layout.path, "--out", run, *flags)
    command.wait_for_checkpoint(run, 0, 1)
    command.samplers[0].suspend()  # all but its mini-batch can be trained
    command.wait_for_checkpoint(run, 0, BATCHES - 1)
    processes = command.children
    command.kill()
    command.assert_nothing_left(processes)

    about = checkpoint.describe_state(run, checkpoint.CHECKPOINT)
    done = checkpoint.load_state(run, checkpoint.CHECKPOINT)["progress"]["done"]
    first_left = about["batch"] - len(about["ahead"])
    assert done == [*range(first_left), *about["ahead"]]
    assert min(about["ahead"]) > first_left
    train_here("--resume", run, "--order", "sequence")
    first, wanted = ([record["traffic"] for record in records(folder)] for folder in (run, undisturbed))
    assert first == wanted  # of every epoch, to the byte
