"""Runs and predictions try a model of the user's, alone and in company, before anything begins."""

from __future__ import annotations

import logging

import pytest
from support.graphs import lay_out, random_graph
from support.messages import line_with, says
from support.models import PyGNet, pyg, stacked

import gsplit
from gsplit.config.train import TrainConfig
from gsplit.errors import InputError

COMPANY = line_with("cannot be split, 2, #, 6")


class Centred(PyGNet):
    def forward(self, x, edge_index):
        x = self.convs[0](x, edge_index)
        return self.convs[1](x - x.mean(0), edge_index)


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return lay_out(random_graph(300, 10, seed=3), tmp_path_factory.mktemp("layout"), parts=2)


def of(net):
    return stacked(net, pyg("SAGEConv"))(5, 3, 2)


def config(out, **more):
    return TrainConfig(
        out=out, fan_out=(4, 4), batch_size=200, epochs=1, device="cpu", samplers=0, evaluate="none", **more
    )


def test_a_run_is_refused_before_anything_is_written(layout, tmp_path):
    with pytest.raises(InputError, match=COMPANY):
        gsplit.train(layout.path, config(tmp_path / "run"), model=of(Centred))
    assert not list(tmp_path.iterdir())


def test_no_check_model_leaves_it_out_and_says_so(layout, tmp_path, in_pool, caplog):
    caplog.set_level(logging.WARNING)
    model = of(Centred)
    with in_pool():
        gsplit.train(layout.path, config(tmp_path / "run", check_model=False), model=model)
    says(caplog.text, "--no-check-model, Centred")
    with in_pool(), pytest.raises(InputError, match=COMPANY):  # it is a flag of one training, and not inherited
        gsplit.train(config=TrainConfig.resuming(tmp_path / "run", epochs=2), model=model)


def test_prediction_tries_a_model_as_training_did(layout, tmp_path, in_pool, monkeypatch):
    model = of(PyGNet)
    with in_pool():
        gsplit.train(layout.path, config(tmp_path / "run"), model=model)
        monkeypatch.setattr(PyGNet, "forward", Centred.forward)
        with pytest.raises(InputError, match=COMPANY):
            gsplit.predict(tmp_path / "run", layout.path, model=model)


def test_a_model_of_ours_is_not_tried_and_the_flag_says_so(layout, tmp_path, in_pool, caplog):
    caplog.set_level(logging.WARNING)
    with in_pool():
        gsplit.train(layout.path, config(tmp_path / "run", check_model=False))
    says(caplog.text, "--no-check-model, sage")
