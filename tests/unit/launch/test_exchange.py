"""``--exchange auto`` is for models that take sums; others are given rows, and a line says so."""

from __future__ import annotations

import pytest
from support.graphs import lay_out, random_graph
from support.messages import says

from gsplit import TrainConfig
from gsplit.launch.effects import warn
from gsplit.launch.resolve import resolve
from gsplit.nn import SAGE, GATConv, SAGEConv
from gsplit.nn.layered import LayeredModel


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return lay_out(random_graph(30, 3), tmp_path_factory.mktemp("exchange"), parts=2).path


class Silent(LayeredModel):
    """A user's model that does not say what it needs."""

    def __init__(self, w_in, hidden, w_out, conv=SAGEConv):
        super().__init__(w_in, hidden, w_out, lambda _, *pair: conv(*pair), num_layers=1)


class TakesSums(Silent):
    """One that says that it takes sums."""

    uses_source_rows = False


@pytest.mark.parametrize(
    ("model", "takes_sums"),
    [
        *(("sage", True), ("gcn", True), ("gat", False)),
        *((SAGE(5, 4, 3, num_layers=1), True), (Silent(5, 4, 3), False), (Silent(5, 4, 3, conv=GATConv), False)),
        (TakesSums(5, 4, 3), True),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_models_say_whether_they_take_sums(layout, caplog, model, takes_sums):
    named = {"model": model} if isinstance(model, str) else {}
    config = TrainConfig(layout=layout, device="cpu", fan_out=(2,), exchange="auto", **named)
    run = resolve(config, None if named else model)
    warn(run)
    assert run.partial_sums == takes_sums
    assert run.settings["exchange"] == ("auto" if takes_sums else "rows")
    lines = [record.message for record in caplog.records if "--exchange" in record.message]
    assert len(lines) == (not takes_sums)


def test_rows_are_the_default(layout, caplog):
    run = resolve(TrainConfig(layout=layout, device="cpu", fan_out=(2,), model="gat"))
    warn(run)
    assert not run.partial_sums
    assert "--exchange" not in caplog.text


def test_a_flag_without_an_exchange_is_told(layout, caplog):
    run = resolve(TrainConfig(layout=layout, device="cpu", fan_out=(2,), strategy="data", exchange="auto"))
    warn(run)
    (line,) = caplog.messages
    says(line, "--exchange auto")
