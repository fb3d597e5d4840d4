"""A loop of one's own trains as the engine's does, and callbacks hear what is written down."""

from __future__ import annotations

import functools
import json
import pickle
import time
from dataclasses import replace

import pytest
import torch.nn.functional as F
from support import pool as pool_module
from support.graphs import lay_out, random_graph
from support.logged import of_mlflow, of_tensorboard, of_wandb
from support.messages import line_with
from support.runs import all_equal, config_for, records, run_for, train_in_trainer

import gsplit
from gsplit.callbacks import Callback, MLflow, TensorBoard, WandB, scalars
from gsplit.errors import InputError, ProcessDied
from gsplit.runs import checkpoint
from gsplit.train import loop
from gsplit.train.own_loop import train_by
from gsplit.train.summary import finish


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return lay_out(random_graph(150, 6, seed=4), tmp_path_factory.mktemp("loops"), parts=2)


def plain(run):
    for batch in run:
        logits = run.model(batch.blocks, batch.x)
        run.backward(F.cross_entropy(logits, batch.labels, reduction="sum"))
        run.step()


def seen_by(run):
    """Notes what each mini-batch has, beside training on it."""
    for batch in run:
        assert len(batch.global_ids) == len(batch.labels)
        SEEN.append((batch.epoch, batch.number, batch.global_ids.tolist(), batch.labels.tolist(), batch.num_targets))
        run.backward(F.cross_entropy(run.model(batch.blocks, batch.x), batch.labels, reduction="sum"))
        run.step()
    assert (run.trainers, run.device.type, run.config.epochs) == (2, "cpu", 2)


SEEN: list = []


def by_loop(member, config, function, after=None, resume=False):
    """Weights, the summary (trainer 0), and what :func:`seen_by` saw; ``after`` mini-batches the run is to stop."""
    SEEN.clear()
    trainer = loop.ready(member, run_for(config, member.world, resume=resume), pool_module.SHARED)
    if after is not None:
        feed = trainer.feed
        trainer.feed = (next(feed) for _ in range(after))
    ended = train_by(trainer, pickle.dumps(function))
    assert ended == (after is None)
    weights = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    return {"after": weights, "summary": finish(trainer) if ended else None, "seen": list(SEEN)}


@pytest.mark.parametrize(
    "changes",
    [{}, {"accumulate": 2, "clip_grad_norm": 0.1, "lr_schedule": "cosine", "dropout": 0.3, "strategy": "data"}],
    ids=["split", "recipe"],
)
def test_the_engines_loop_rewritten_gives_the_same_weights_to_the_bit(pool, layout, tmp_path, changes):
    config = config_for(layout.path, tmp_path / "engine", epochs=3, **changes)
    engines = pool.run(2, train_in_trainer, config)
    own = pool.run(2, by_loop, replace(config, out=tmp_path / "own"), plain)
    for ours, theirs in zip(own, engines, strict=True):
        assert all_equal(ours["after"], theirs["after"])
    wanted, found = ([(r["loss"], r["valid_accuracy"]) for r in records(tmp_path / at)] for at in ("engine", "own"))
    assert [score for _, score in wanted] == [score for _, score in found]
    assert [loss for loss, _ in wanted] == pytest.approx([loss for loss, _ in found], rel=1e-5)
    assert own[0]["summary"]["test_accuracy"] == engines[0]["summary"]["test_accuracy"]
    assert own[0]["summary"]["stages"]["forward"] > 0


def test_a_run_that_is_stopped_in_a_loop_goes_on(pool, layout, tmp_path):
    config = config_for(layout.path, tmp_path / "whole", epochs=3)
    whole = pool.run(2, by_loop, config, plain)[0]
    config = replace(config, out=tmp_path / "stopped")
    pool.run(2, by_loop, config, plain, 3)
    assert checkpoint.describe_state(tmp_path / "stopped", "checkpoint")["batch"] == 3 % -(-75 // 40)
    gone_on = pool.run(2, by_loop, config, again_and_again, None, True)[0]
    assert all_equal(gone_on["after"], whole["after"])


def test_a_run_by_a_loop_is_not_gone_on_with_without_it(layout, tmp_path, in_pool):
    config = config_for(layout.path, tmp_path / "run", epochs=1)
    with in_pool():
        gsplit.train(config=config, loop=plain)
    with pytest.raises(InputError, match=line_with("loop, plain, Python")):
        gsplit.train(config=gsplit.TrainConfig.resuming(tmp_path / "run", epochs=2))


def test_mini_batches_say_whose_they_are(pool, layout, tmp_path):
    results = pool.run(2, by_loop, config_for(layout.path, tmp_path / "run", epochs=2), seen_by)
    graph, order = layout.graph, layout.permutation
    label_of = dict(zip(order.tolist(), graph.labels.tolist(), strict=True))
    for epoch in (0, 1):
        ids = []
        for mine, theirs in zip(*(result["seen"] for result in results), strict=True):
            assert mine[:2] == theirs[:2]
            assert mine[4] == theirs[4] == len(mine[2]) + len(theirs[2])
            for _, _, global_ids, labels, _ in (mine, theirs):
                assert labels == [label_of[vertex] for vertex in global_ids]
                ids += global_ids if mine[0] == epoch else []
        assert sorted(ids) == sorted(order[graph.train_idx].tolist())


def leaves(run, rank=0):
    for batch in run:
        run.backward(run.model(batch.blocks, batch.x).sum())
        run.step()
        if run.rank == rank and batch.number == 1:
            return


def skips_a_step(run):
    for batch in run:
        run.backward(run.model(batch.blocks, batch.x).sum())


def steps_first(run):
    for _ in run:
        run.step()


def peeks(run):
    next(iter(run))
    plain(run)


def again_and_again(run):
    for _ in range(run.config.epochs):
        plain(run)


def means(run):
    for batch in run:
        run.backward(F.cross_entropy(run.model(batch.blocks, batch.x), batch.labels, reduction="none"))


def test_a_loop_that_ends_too_soon_ends_the_run_and_says_where(layout, tmp_path):
    start_s = time.monotonic()
    config = config_for(layout.path, tmp_path / "run", epochs=500, batch_size=20)
    with pytest.raises(InputError, match=line_with("trainer 1, epoch 1, 1")):
        gsplit.train(config=config, loop=functools.partial(leaves, rank=1))
    assert time.monotonic() - start_s < 60


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (skips_a_step, "run.step"),
        (steps_first, "trainer 0, run.step, run.backward"),
        (peeks, "trainer 0, mini-batches"),
        (means, "run.backward, (#)"),
        (leaves, "trainer 0, epoch 1, 1"),
    ],
)
def test_loops_that_do_not_take_turns(pool, layout, tmp_path, function, message):
    with pytest.raises(InputError, match=line_with(message)):
        pool.run(1, mistaken, config_for(layout.path, tmp_path / "run"), function)[0]()


def mistaken(member, config, function):
    try:
        by_loop(member, config, function)
    except InputError as error:
        return functools.partial(raised, str(error))
    return None


def raised(text):
    raise InputError(text)


@pytest.mark.parametrize(
    ("handed", "message"),
    [
        ({"loop": plain, "strategy": "full"}, "--strategy full"),
        ({"loop": plain, "loss": F.cross_entropy}, "loop, loss"),
        ({"loop": lambda run: None}, "loop, <lambda>"),
        ({"loop": 5}, "loop, 5"),
        ({"loop": plain, "class_weights": "balanced"}, "--class-weights balanced, loop"),
        ({"callbacks": 5}, "callbacks, gsplit.callbacks.Callback, 5"),
        ({"callbacks": (name for name in ["tensorboard"])}, "callbacks, str, gsplit.callbacks.Callback"),
        ({"callbacks": ["tensorboard"]}, "callbacks, str, gsplit.callbacks.Callback"),
    ],
)
def test_what_cannot_be_handed_over_is_told_at_once(layout, tmp_path, handed, message):
    given = {name: handed.pop(name) for name in ("loop", "loss", "callbacks") if name in handed}
    changes = {**handed, **({"fan_out": (-1, -1)} if "strategy" in handed else {})}
    with pytest.raises(InputError, match=line_with(message)):
        gsplit.train(config=config_for(layout.path, tmp_path / "run", **changes), **given)
    assert not (tmp_path / "run").exists()


class Notes(Callback):
    def __init__(self):
        self.heard = []

    def on_train_begin(self, run, config):
        self.heard.append((run.name, config["hidden"]))

    def on_epoch_end(self, record):
        self.heard.append(record)

    def on_validation_end(self, record):
        self.heard.append(record)

    def on_train_end(self, summary):
        self.heard.append(summary)


class Breaks(Callback):
    def on_epoch_end(self, record):
        raise ZeroDivisionError("of a callback")


def with_callbacks(member, config, callbacks):
    trainer = loop.ready(member, run_for(config, member.world), pool_module.SHARED)
    trainer.begin_callbacks(pickle.dumps(callbacks))
    loop.train(trainer)
    finish(trainer)
    return trainer.callbacks[0].heard if trainer.callbacks and isinstance(trainer.callbacks[0], Notes) else None


def test_callbacks_hear_what_is_written_down(pool, layout, tmp_path):
    config = config_for(layout.path, tmp_path / "run", epochs=2, validate_every_batches=1)
    begun, *heard = pool.run(2, with_callbacks, config, [Notes()])[0]
    assert begun == ("run", 8)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    heard = json.loads(json.dumps(heard))
    assert heard[:-1] == [line for line in lines if line["kind"] in ("epoch", "validation")]
    assert [line["step"] for line in heard if line.get("kind") == "validation"] == [1, 3]
    assert heard[-1] == json.loads((tmp_path / "run" / "summary.json").read_text())


def test_an_exception_in_a_callback_ends_the_run(layout, tmp_path):
    with pytest.raises(ProcessDied, match=r"(?s)trainer 0 failed.*ZeroDivisionError: of a callback"):
        gsplit.train(config=config_for(layout.path, tmp_path / "run", epochs=500), callbacks=[Breaks()])


@pytest.mark.parametrize(
    ("callback", "read"),
    [
        pytest.param(TensorBoard, of_tensorboard, id="TensorBoard"),
        pytest.param(MLflow, of_mlflow, id="MLflow", marks=pytest.mark.slow),
        pytest.param(WandB, of_wandb, id="WandB", marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore:.*noload")  # of MLflow's own
def test_what_loggers_wrote_is_what_the_run_wrote(pool, layout, tmp_path, callback, read):
    config = config_for(layout.path, tmp_path / "run", epochs=2, validate_every_batches=1)
    pool.run(2, with_callbacks, config, [callback()])
    found = read(tmp_path / "run")
    for record in records(tmp_path / "run"):
        for name, value in scalars(record).items():
            assert found[name][record["epoch"]] == pytest.approx(value, rel=1e-6), name
    for record in records(tmp_path / "run", "validation"):
        assert found["within/valid_accuracy"][record["step"]] == pytest.approx(record["valid_accuracy"], rel=1e-6)
