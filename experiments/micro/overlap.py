"""How much of a run's loading lies behind its computing, from the trace that --profile writes.

    python -m gsplit.train LAYOUT --profile --out RUN
    python -m experiments.micro.overlap RUN/trace.json

Two views of each trainer. *Threads*: the ``load`` spans of the feed's thread against the ``forward``, ``backward``,
``reduce`` and ``step`` spans of the main thread; on a GPU these say when the host was busy with a stage. *Streams*,
where there is a GPU: what the GPU did of loading (copies and kernels) against what it did of computing. A stream
loads if anything was launched on it inside a ``load`` span: a launch and what it launched share a correlation number,
and the profiler repeats the span on the stream.

Both are of the mini-batches in the trace. On a CPU what runs at once shares its cores; on a GPU, its memory and bus.
docs/formats.md has the keys of ``--json``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from experiments.shared.experiment import Experiment, Flags
from gsplit import cli
from gsplit.config.flags import Positional
from gsplit.errors import InputError
from gsplit.files import read_json

LOAD = "load"
COMPUTE = ("forward", "backward", "reduce", "step")
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCHES = ("_runtime", "_driver")
"""How categories of launches end; before it stands the kind of device."""

Event = dict[str, Any]
Span = tuple[float, float]
"""Begin and end, in microseconds."""


@dataclass(frozen=True, kw_only=True)
class OverlapConfig(Flags):
    """How much of a run's loading lies behind its computing."""

    trace: Annotated[Path, Positional]
    """RUN/trace.json, written with --profile."""


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Times during which something of a kind was under way."""

    loading_us: float
    computing_us: float
    hidden_us: float
    """Both at once."""

    @property
    def hidden_share(self) -> float | None:
        """Share of loading that is hidden; None where nothing was loaded."""
        return self.hidden_us / self.loading_us if self.loading_us else None

    @staticmethod
    def of(loading: Iterable[Span], computing: Iterable[Span]) -> Overlap:
        loads, computes = union(loading), union(computing)
        return Overlap(
            loading_us=total(loads), computing_us=total(computes), hidden_us=total(common(loads, computes))
        )

    def record(self) -> dict[str, float | None]:
        """The keys of ``--json``."""
        return {
            "loading_us": round(self.loading_us, 3),
            "computing_us": round(self.computing_us, 3),
            "hidden_us": round(self.hidden_us, 3),
            "hidden_share": self.hidden_share,
        }


def union(spans: Iterable[Span]) -> list[Span]:
    """The same time in spans that are apart, in order."""
    apart: list[Span] = []
    for begin, end in sorted(spans):
        if apart and begin <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end))
        else:
            apart.append((begin, end))
    return apart


def common(first: list[Span], second: list[Span]) -> list[Span]:
    """The time that lies in both, each of them a union."""
    both, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        begin, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if begin < end:
            both.append((begin, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return both


def total(spans: Iterable[Span]) -> float:
    return sum(end - begin for begin, end in spans)


def read_trace(path: Path) -> list[Event]:
    """The events of a trace that have a length, with the names of processes for their numbers.

    Raises:
        InputError: where there is no trace.
    """
    try:
        events = read_json(path)["traceEvents"]
        if not all(map(_is_event, events)):
            raise ValueError("an event")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; --profile writes one into the run") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} is no trace") from None
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    return [{**event, "pid": names.get(event["pid"], "")} for event in events if event["ph"] == "X"]


def _is_event(event: object) -> bool:
    """Whether an event has what is read here, of the right kinds."""
    if not isinstance(event, dict) or not isinstance(args := event.get("args", {}), dict):
        return False
    texts = [event.get("ph"), event.get("name"), event.get("pid")]
    numbers = [event.get(key, 0) for key in ("ts", "dur")] + [args.get(key, 0) for key in ("correlation", "stream")]
    if event.get("ph") == "X":
        texts.append(event.get("tid"))
        numbers += [event.get("ts"), event.get("dur")]
    if event.get("name") == "process_name":
        texts.append(args.get("name"))
    return all(isinstance(text, (str, int)) for text in texts) and all(
        isinstance(number, (int, float)) for number in numbers
    )


def trainers_of(events: Iterable[Event]) -> list[int]:
    """Ranks, in order."""
    found = (re.fullmatch(r"trainer (\d+)", str(event["pid"])) for event in events)
    return sorted({int(match[1]) for match in found if match})


def of_threads(events: Iterable[Event], rank: int) -> Overlap:
    """The overlap of the stages on the host."""
    own = [event for event in events if event["pid"] == f"trainer {rank}"]
    return Overlap.of(_spans(own, [LOAD]), _spans(own, COMPUTE))


def of_streams(events: Iterable[Event], rank: int, only: str = "") -> Overlap | None:
    """The overlap of copies and kernels on the GPU; None where the trace has none.

    Args:
        events: of all processes.
        rank: of the trainer.
        only: of loading, what has this in its name, such as ``HtoD``.
    """
    events = list(events)
    on_gpu = [event for event in events if str(event["pid"]).startswith(f"trainer {rank}, GPU ")]
    rows = [event for event in on_gpu if event.get("cat") in ON_GPU]
    if not rows:
        return None
    launched = _launched_by_loads([event for event in events if event["pid"] == f"trainer {rank}"])
    loading = {_stream(event) for event in rows if event.get("args", {}).get("correlation", -1) in launched}
    loading |= {_stream(event) for event in on_gpu if event["name"] == LOAD}
    return Overlap.of(
        (_span(event) for event in rows if _stream(event) in loading and only in event["name"]),
        (_span(event) for event in rows if _stream(event) not in loading),
    )


def _launched_by_loads(own: list[Event]) -> set[int]:
    """Correlation numbers of what a trainer launched inside a ``load`` span, in the thread of the span."""
    loads: dict[Any, list[Span]] = {}
    for event in own:
        if event["name"] == LOAD:
            loads.setdefault(event["tid"], []).append(_span(event))
    return {
        event["args"]["correlation"]
        for event in own
        if str(event.get("cat")).endswith(LAUNCHES)
        and "correlation" in event.get("args", ())
        and any(begin <= event["ts"] <= end for begin, end in loads.get(event["tid"], ()))
    }


def _stream(event: Event) -> tuple[str, int]:
    """GPU and stream; the stream is the row as well."""
    return event["pid"], event.get("args", {}).get("stream", event["tid"])


def _spans(events: Iterable[Event], names: Collection[str]) -> list[Span]:
    return [_span(event) for event in events if event["name"] in names]


def _span(event: Event) -> Span:
    return event["ts"], event["ts"] + event["dur"]


def measure(config: OverlapConfig) -> dict[str, Any]:
    """What ``--json`` has: both views of each trainer."""
    events = read_trace(config.trace)
    records = []
    for rank in trainers_of(events):
        threads, streams = of_threads(events, rank), of_streams(events, rank)
        records.append({"trainer": rank, "threads": threads.record(), "streams": streams and streams.record()})
    return {"trainers": records}


command = Experiment("micro.overlap", OverlapConfig, measure)

if __name__ == "__main__":
    cli.main(command)
