"""``--profile``: one trace of trainers and samplers, on one time line."""

from __future__ import annotations

import json

import pytest
from support.messages import says
from support.runs import config_for

import gsplit
from experiments.micro.overlap import of_streams, of_threads, read_trace, trainers_of
from gsplit.train.profiling import MINI_BATCHES, numbered, sampler_event, trainer_events

STAGES = {"load", "wait", "forward", "backward", "reduce", "step"}


def spans(events, process, name):
    return sorted(
        (e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == process and e["name"] == name
    )


def test_a_run_writes_a_trace_of_all_processes(layouts, tmp_path, capfd):
    config = config_for(layouts(2).path, tmp_path / "run", epochs=4, batch_size=16, samplers=1, profile=True)
    gsplit.train(config=config)
    out, err = capfd.readouterr()
    says(out, "run/trace.json, chrome://tracing")
    assert "USDT" not in err
    assert not list(config.out.glob(".trace*"))
    events = json.loads((config.out / "trace.json").read_text())["traceEvents"]
    assert all(isinstance(e["pid"], int) and isinstance(e["tid"], int) for e in events)
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    sampler = next(name for name in names.values() if name.startswith("sampler"))
    assert sorted(names.values()) == [sampler, "trainer 0", "trainer 1"]
    events = [{**e, "pid": names[e["pid"]]} for e in events]
    for rank in range(2):
        for stage in STAGES - {"load"}:
            assert len(spans(events, f"trainer {rank}", stage)) == MINI_BATCHES
        forward, load = (spans(events, f"trainer {rank}", stage) for stage in ("forward", "load"))
        # One time line: a mini-batch is loaded before it is computed, and all of it lies close together.
        assert all(begin < computed for (begin, _), (_, computed) in zip(load, forward[1:], strict=False))
        inner = [e for e in events if e["pid"] == f"trainer {rank}" and e["name"] == "_NeighbourSum"]
        assert any(begin <= e["ts"] <= end for begin, end in forward for e in inner)
    # All trainers are in a collective at the same time: their reduces overlap.
    for own, theirs in zip(*(spans(events, f"trainer {rank}", "reduce") for rank in range(2)), strict=True):
        assert own[0] < theirs[1]
        assert theirs[0] < own[1]
    assert spans(events, sampler, "sample")
    # What experiments.micro.overlap reads out of it: it is loaded ahead, in a thread of its own.
    complete = read_trace(config.out / "trace.json")
    assert trainers_of(complete) == [0, 1]
    for rank in range(2):
        overlap = of_threads(complete, rank)
        assert 0 < overlap.hidden_us <= min(overlap.loading_us, overlap.computing_us)
        assert of_streams(complete, rank) is None
    assert min(e["ts"] for e in events if "ts" in e) == 0


@pytest.mark.slow
def test_nothing_to_record_is_said(pool, layouts, tmp_path, capfd):
    config = config_for(layouts(2).path, tmp_path / "run", epochs=1, batch_size=1000, samplers=1, profile=True)
    gsplit.train(config=config)
    says(capfd.readouterr().err, "--profile, 2")
    assert not (config.out / "trace.json").exists()


@pytest.fixture
def recorded():
    return [
        {"ph": "X", "name": "gsplit clock 4990000", "pid": 77, "tid": 77, "ts": 95.0, "dur": 1},
        {"ph": "X", "name": "gsplit clock 5000000", "pid": 77, "tid": 77, "ts": 100.0, "dur": 1},
        {"ph": "X", "name": "forward", "pid": 77, "tid": 77, "ts": 103.0, "dur": 9},
        {"ph": "X", "name": "kernel", "pid": 1, "tid": 7, "ts": 104.0, "dur": 2},
        {"ph": "X", "name": "Buffer Flush", "pid": -1, "tid": 0, "ts": 104.5, "dur": 1, "cat": "overhead"},
        {"ph": "M", "name": "process_name", "pid": 77, "tid": 0, "ts": 99.0, "args": {"name": "python"}},
        {"ph": "i", "s": "g", "name": "Iteration Start", "pid": "Traces", "tid": "Trace", "ts": 99.0},
    ]


def test_trainers_are_named_and_moved_to_the_clock_of_the_host(recorded):
    events = trainer_events(recorded, 3)
    assert [e["args"]["name"] for e in numbered(events) if e["name"] == "process_name"] == [
        "trainer 3",
        "trainer 3, GPU 1",
    ]
    assert [(e["name"], e["pid"], e["ts"]) for e in events if e["ph"] == "X"] == [
        ("forward", "trainer 3", 5003.0),
        ("kernel", "trainer 3, GPU 1", 5004.0),
    ]


def test_a_sampler_s_span_is_where_it_worked():
    from gsplit.supply.ring import Handle
    from gsplit.supply.tickets import Ticket

    handle = Handle(ticket=Ticket(number=4, epoch=1, batch=2), slot=0, pid=12, begun_ns=7_000_000, seconds=0.001)
    span = sampler_event(handle)
    assert (span["pid"], span["ts"], span["dur"], span["args"]) == (
        "sampler 12",
        7000.0,
        pytest.approx(1000.0),
        {"epoch": 2, "batch": 2},
    )
