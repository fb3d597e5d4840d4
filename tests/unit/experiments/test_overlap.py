"""Traces drawn by hand, one character a microsecond, and the time that loading and computing share in them."""

from __future__ import annotations

import json

import pytest
from support.documents import undocumented

from experiments.micro import overlap
from experiments.micro.overlap import common, of_streams, of_threads, trainers_of, union
from gsplit.errors import InputError
from gsplit.train.profiling import numbered


def event(pid, tid, name, begin, end, cat="user_annotation", **args):
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "ts": begin,
        "dur": end - begin,
        "cat": cat,
        "args": args,
    }


@pytest.fixture
def trace():
    """Trainer 0, with a GPU; trainer 10, which another must not be taken for.

    0         10        20        30
    |.........|.........|.........|
    LLLLLLLLLLLLLLLLLLLL                 feed's thread: load
     c k                                 launches a copy and a kernel
      ffffffffff   bbbb  rs              main thread: forward, backward, reduce, step
       k             k                   launches two kernels
       CCCCCCC     KKKKKK                stream 20: the copy, the kernel that reads rows
           FFFFFFFFFFFF                  stream 7: computing, two kernels that overlap
                 BBBBBBBBBB
    """
    host, gpu = "trainer 0", "trainer 0, GPU 0"
    return [
        {"ph": "M", "name": "process_name", "pid": host, "tid": 0, "args": {"name": host}},
        event(host, 2, "load", 0, 20),
        event(host, 2, "memcpyAsync", 1, 2, "xpu_runtime", correlation=1),
        event(host, 2, "launchKernelEx", 3, 4, "xpu_driver", correlation=2),
        event(host, 1, "forward", 2, 12),
        event(host, 1, "launchKernel", 3, 4, "xpu_runtime", correlation=3),
        event(host, 1, "backward", 15, 19),
        event(host, 1, "launchKernel", 17, 18, "xpu_runtime", correlation=4),
        event(host, 1, "reduce", 21, 22),
        event(host, 1, "step", 22, 23),
        event(gpu, 20, "Memcpy HtoD (Pinned -> Device)", 3, 10, "gpu_memcpy", stream=20, correlation=1),
        event(gpu, 20, "_read_rows", 15, 21, "kernel", stream=20, correlation=2),
        event(gpu, 7, "first", 7, 19, "kernel", stream=7, correlation=3),
        event(gpu, 7, "second", 13, 23, "kernel", stream=7, correlation=4),
        event(gpu, 20, "load", 0, 30, "gpu_user_annotation", stream=20),
        event("trainer 10", 1, "load", 0, 5),
        event("sampler 77", 0, "sample", 0, 100),
    ]


def numbers(found):
    return found.loading_us, found.computing_us, found.hidden_us


def test_unions_and_what_they_share():
    assert union([(5, 6), (0, 2), (1, 3), (3, 4)]) == [(0, 4), (5, 6)]
    assert common([(0, 4), (5, 9)], [(1, 2), (3, 6), (8, 20)]) == [(1, 2), (3, 4), (5, 6), (8, 9)]
    assert common([(0, 1)], [(1, 2)]) == []
    assert common([], [(1, 2)]) == []


def test_threads_and_streams_of_one_trainer(trace):
    events = [e for e in trace if e["ph"] == "X"]
    assert trainers_of(events) == [0, 10]
    assert numbers(of_threads(events, 0)) == (20, 16, 14)
    assert numbers(of_streams(events, 0)) == (13, 16, 9)
    assert numbers(of_streams(events, 0, "HtoD")) == (7, 16, 3)
    assert numbers(of_streams(events, 0, "_read_rows")) == (6, 16, 6)
    assert of_streams(events, 0).hidden_share == pytest.approx(9 / 13)
    assert of_streams(events, 10) is None
    assert numbers(of_threads(events, 10)) == (5, 0, 0)


@pytest.mark.parametrize("lost", ["correlation", "gpu_user_annotation"])
def test_either_sign_shows_which_stream_loads(trace, lost):
    """Whatever a version of the profiler leaves out."""
    events = [e for e in trace if e["ph"] == "X" and e["cat"] != lost]
    if lost == "correlation":
        events = [{**e, "args": {key: value for key, value in e["args"].items() if key != lost}} for e in events]
    assert numbers(of_streams(events, 0)) == (13, 16, 9)


def test_what_is_not_loaded_is_not_hidden(trace):
    events = [e for e in trace if e["ph"] == "X" and e["name"] != "load"]
    assert numbers(of_streams(events, 0)) == (0, 20, 0)
    assert of_streams(events, 0).hidden_share is None


def test_the_command_prints_and_writes(trace, tmp_path, capsys):
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": numbered(trace)}))
    overlap.command([str(tmp_path / "trace.json"), "--json", str(tmp_path / "out.json")])
    printed = capsys.readouterr().out
    assert "| 0 | loading_us 20, computing_us 16, hidden_us 14, hidden_share 0.7 |" in printed
    first, second = json.loads((tmp_path / "out.json").read_text())["trainers"]
    assert first["threads"] == {"loading_us": 20, "computing_us": 16, "hidden_us": 14, "hidden_share": 0.7}
    assert second["streams"] is None
    assert undocumented("Overlap", ["trainers", *first, *first["streams"]]) == []


@pytest.mark.parametrize("content", [None, "no json", "[]", "{}"])
def test_mistakes(content, tmp_path):
    if content is not None:
        (tmp_path / "trace.json").write_text(content)
    with pytest.raises(InputError, match=r"cannot read|is no trace"):
        overlap.command([str(tmp_path / "trace.json")])
