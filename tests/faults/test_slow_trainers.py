"""Exact evaluation waits for a trainer as long as it lives, however slow it is, and not for one that died."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from datetime import timedelta
from typing import Any

import pytest
import torch
from support.commands import LIMIT_S
from support.messages import line_with

from gsplit.data import open_layout
from gsplit.device.precision import Precision
from gsplit.engine.evaluation import Evaluator
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.objective import objective_of
from gsplit.engine.rows.shared import Shared
from gsplit.errors import ProcessDied
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.nn import SAGE
from gsplit.parallel import join as group
from gsplit.parallel import rendezvous
from gsplit.parallel.join import joined
from gsplit.processes import start

TIMEOUT_S = 3.0
"""In place of ten minutes."""
CPU = torch.device("cpu")


class Delayed(SAGE):
    """Something happens in the first layer of trainer 1."""

    happens: Any

    def forward_layer(self, layer, block, x):
        if layer == 1:
            self.happens()
        return super().forward_layer(layer, block, x)


def is_slow():
    time.sleep(TIMEOUT_S + 1)


def evaluate_twice(rank, port, shared, both_here, path, folder):
    """A slow evaluation, then one in which trainer 1 dies."""
    layout = open_layout(path)
    loader = FeatureLoader(
        HostRows(layout.graph.features), device=CPU, dtype=torch.float32, normalize=False, threads=1
    )
    edges = EdgeLoader(layout.graph, device=CPU, dtype=torch.float32, weights=False, degrees=False)
    model = Delayed(layout.graph.num_features, 8, layout.graph.num_classes, num_layers=2)

    def dies():
        (folder / "died").write_text(str(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL)

    group.TIMEOUT = timedelta(seconds=TIMEOUT_S)
    both_here.wait(LIMIT_S * 6)  # so that starting takes less than that
    with joined(rank, 2, port, "cpu", threads=1, patience=timedelta(seconds=TIMEOUT_S)) as member:
        inputs = SplitLoader(layout, CPU, loader, edges)
        evaluator = Evaluator(
            layout,
            member,
            inputs,
            objective_of("classes"),
            shared.levels,
            num_layers=2,
            precision=Precision(dtype=torch.float32),
            threads=1,
        )
        for happens in (is_slow, dies):
            model.happens = happens if rank == 1 else lambda: None
            score = evaluator.score(model, layout.graph.valid_idx)
            (folder / f"{rank}-{happens.__name__}").write_text(str(score))


def test_a_slow_trainer_is_waited_for_and_a_dead_one_is_not(layout, tmp_path):
    shared = Shared.create(2)
    both_here = multiprocessing.get_context("spawn").Barrier(2)
    try:
        with rendezvous(2) as port:
            children = start(evaluate_twice, 2, port, shared, both_here, layout.path, tmp_path)
            with pytest.raises(ProcessDied, match=line_with("trainer 1, pid #, SIGKILL")):
                children.join()
    finally:
        shared.close()
    assert time.monotonic() - float((tmp_path / "died").read_text()) < LIMIT_S
    scores = [(tmp_path / f"{rank}-is_slow").read_text() for rank in (0, 1)]
    assert scores[0] == scores[1]
    assert float(scores[0]) > 0
    assert not list(tmp_path.glob("*-dies"))
