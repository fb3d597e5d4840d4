"""The parts that one GPU is enough for, the cheapest and most telling first."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from functools import partial

from experiments.shared.processes import RunFailed
from gsplit.files import read_json
from tools.gpu_check.place import TYPED, Failed, Part, Place
from tools.gpu_check.training import TIMED, Words, equals, make, nears, rate, sampled, train

MARKED = re.compile(r"\bmark\.(gpu|accelerator)\b")
"""Mark of tests for real devices in a file of tests, or for devices of any kind."""
TYPES = ("--fan-out", "10,10", "--batch-size", 256)
"""Flags of runs on a graph of several types."""
NO_VARIABLES: dict[str, str] = {}
MIB = 1 << 20
WORDS = ("PASSED", "FAILED", "ERROR", "SKIPPED")
VERDICT = re.compile(
    rf"^\[gw\d+\] \[ *\d+%\] ({'|'.join(WORDS)}) (\S+::.*?) *$|^(\S+::.*) ({'|'.join(WORDS)}) +\[ *\d+%\]$",
    re.MULTILINE,
)
"""What pytest says of a test when it has ended, with processes of its own and without."""


def tests(place: Place) -> str:
    """Run the tests of accelerators; those that were not reached in time are not counted.

    Raises:
        Failed: where one fails, none passes on a GPU, or time is over; with the first that failed.
    """
    marks = {
        file: set(MARKED.findall(file.read_text())) for file in sorted((place.root / "tests").rglob("test_*.py"))
    }
    files = [file for file, found in marks.items() if found]
    words = ["-m", "pytest", "-c", place.root / "pyproject.toml", "-vv", "-p", "no:cacheprovider"]
    words += ["-p", "tools.gpu_check.failures"]
    words += ["-m", f"({' or '.join(sorted(set().union(*marks.values())))}) and not slow"]
    if importlib.util.find_spec("xdist") is not None and place.device != "cpu":
        words += ["-n", "2", "--dist", "loadgroup"]  # one pool of trainers on the GPU (tests/conftest.py)
    failed = ""
    try:
        place.python("tests", *words, *files)
    except RunFailed as error:
        failed = f"; {error}"
    said = VERDICT.findall((place.out / "tests" / "stdout").read_text(errors="replace"))
    ended = [(one or other, name or its) for one, name, its, other in said]
    counts = Counter(word for word, _ in ended)
    told = ", ".join(f"{counts[word]} {word.lower()}" for word in WORDS if counts[word]) or "no test ran"
    if first := next((name for word, name in ended if word in ("FAILED", "ERROR")), None):
        told += f" (first {first})"
    if failed or not (counts["PASSED"] or place.rehearsed):
        raise Failed(told + failed)
    return told


def loading(place: Place) -> str:
    """Rates of the ways that feature rows come from the host."""
    file = place.out / "loading.json"
    size = ("--rows", 2000, "--batch-size", 64) if place.rehearsed else ("--rows", 500_000, "--batch-size", 1024)
    place.python(
        "loading", "-m", "experiments.micro.loading", "--device", place.device, *size, "--rounds", 7, "--json", file
    )
    told = []
    for load in read_json(file)["loads"]:
        if load["dtype"] != "bfloat16" and load["list"] == "sampled":
            ways = {way["way"]: way["bytes_per_second"] / 1e9 for way in load["ways"]}
            told.append(f"{load['dtype']}: {', '.join(f'{way} {rate:.1f}' for way, rate in ways.items())}")
            if load["dtype"] == "float32":
                place.rates += [(f"rows: {way}", rate, _floor(way, place.device), None) for way, rate in ways.items()]
    return "GB/s of " + "; ".join(told)


def _floor(way: str, kind: str) -> str:
    """The rate that a way of loading rows is held against: a plain copy over the link, or within the device."""
    if way == "copy":
        return ""
    return f"within {kind}:0" if way.startswith("cached") else "rows: copy"


def overlap(place: Place, loader: str) -> str:
    """How much of loading a run hides behind computing, with every row from the host.

    Raises:
        Failed: where the device's streams were not recorded.
    """
    if place.device == "cpu" and loader == "zero-copy":
        return "not rehearsed: without a GPU nothing reads rows where they lie"
    name, file = f"traced-{loader}", place.out / f"overlap-{loader}.json"
    flags = ("--epochs", 2, "--cache", "none", "--loader", loader, "--profile", "--validate-every", 0)
    train(place, name, make(place, "medium", 1), *TIMED, *sampled(place), *flags)
    trace = place.work / f"run-{name}" / "trace.json"
    place.python(f"overlap-{loader}", "-m", "experiments.micro.overlap", trace, "--json", file)
    (trainer,) = read_json(file)["trainers"]
    shares = {view: trainer[view]["hidden_share"] for view in ("threads", "streams") if trainer[view] is not None}
    if None in shares.values() or not (place.rehearsed or "streams" in shares):
        raise Failed(f"the trace does not show loading: {shares}")
    return "hidden of loading: " + ", ".join(f"{view} {share:.0%}" for view, share in shares.items())


def beside(place: Place) -> str:
    """How much longer other kernels take while rows are read from the host."""
    if place.device != "cuda":
        return "not tried: it takes CUDA's graphs and clocks"
    return place.python("beside", "-m", "tools.gpu_check.beside").strip()


def kept(place: Place) -> str:
    """What the allocator keeps of a GPU after 50 mini-batches."""
    if place.device == "cpu":
        return "not rehearsed: only a device has an allocator"
    layout, out = place.work / make(place, "medium", place.gpus), place.out / "kept"
    place.python("kept", "-m", "tools.gpu_check.kept", layout, out, place.device, 16 if place.rehearsed else 4096)
    found = read_json(out / "kept.json")
    reserved, allocated, peak = (found[f"{name}_bytes"] for name in ("reserved", "allocated", "peak"))
    told = f"{reserved / MIB:.1f} MiB reserved, {allocated / MIB:.1f} allocated, {peak / MIB:.1f} at the most"
    place.memory.append((f"after {found['mini_batches']} mini-batches", told))
    return f"{told}; reserved / the most allocated {reserved / peak:.2f}"


def measured(name: str, module: str, limit_s: float, *, is_needed: bool = False, on_host: bool = True) -> Part:
    """A part that looks at the machine by a module of its own.

    Args:
        name: of the part.
        module: of this package.
        limit_s: of the part.
        is_needed: whether the others are not begun where it fails.
        on_host: whether the CPU rehearses it.
    """

    def run(place: Place) -> str:
        if place.device == "cpu" and not on_host:
            return "not rehearsed: only a device has that"
        return place.measured(module)

    return Part(name=name, limit_s=limit_s, run=run, is_needed=is_needed)


def timed(name: str, *flags: object, parts: int = 1, variables: dict[str, str] = NO_VARIABLES) -> Part:
    """A part that trains on mini-batches and tells its times."""

    def run(place: Place) -> str:
        layout = make(place, "medium", parts)
        return rate(place, folder_of(name), layout, *sampled(place), *flags, **variables)

    return Part(name=name, limit_s=40, run=run)


def same(
    name: str,
    *flags: object,
    parts: int,
    there: Words = (),
    variables: dict[str, str] = NO_VARIABLES,
    starter: Words = (),
    preset: str = "tiny",
) -> Part:
    """A part that holds a training run on the device against the CPU's; see :func:`equals`."""
    run = folder_of(name)
    return Part(
        name=name, limit_s=90, run=lambda place: equals(place, run, parts, flags, there, variables, starter, preset)
    )


def near(precision: str) -> Part:
    """A part that holds a mixed precision on the device against the CPU's; see :func:`nears`."""
    return Part(name=f"as on the CPU: {precision}", limit_s=60, run=partial(nears, precision=precision))


def links(place: Place) -> str:
    """Times of learning links."""
    flags = ("--task", "links", "--pairs", "edges", "--fan-out", "10,10", "--batch-size", 4096)
    return rate(place, "links", make(place, "small", 1), *flags)


def torchrun(trainers: int) -> Words:
    """What starts so many trainers of one host."""
    return ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", trainers)


def whole_graph(place: Place) -> str:
    """Times of training on the whole graph."""
    return rate(place, "whole-graph", make(place, "small", 1), "--strategy", "full", "--num-layers", 2)


def folder_of(name: str) -> str:
    """The name of a part as that of a folder."""
    return re.sub(r"\W+", "-", name)


KEPT = Part(name="memory after 50 mini-batches", limit_s=60, run=kept)
CACHED = ("--cache", "partitioned", "--cache-size", "10%")
DATA = ("--strategy", "data")
SHARED = "four trainers on one GPU, which NCCL does not support"
"""What parts are called whose failure is no verdict; they come last, for they may hang (NCCL's manual, "Creating a
communicator": several ranks on one device)."""
LOOKED_AT = (
    measured("devices", "devices", 40, is_needed=True),
    measured("joining", "joining", 75, is_needed=True),
    measured("links and memory", "links", 60),
    measured("registering", "registering", 40, on_host=False),
    measured("kernels", "kernels", 60, on_host=False),
)
"""Parts that look at the machine, before any that trains."""
ONE = (
    *LOOKED_AT,
    same("as on the CPU: split", parts=1),
    same("as on the CPU: GAT", "--model", "gat", "--heads", 4, parts=1),
    same("as on the CPU: several types", "--model", "rgcn", *TYPES, parts=1, preset=TYPED),
    same("as on the CPU: several types, attention", "--model", "rgat", "--heads", 4, *TYPES, parts=1, preset=TYPED),
    same("as on the CPU: torchrun", parts=1, starter=torchrun(1)),
    near("bf16-mixed"),
    near("16-mixed"),
    Part(name="loading rates", limit_s=45, run=loading),
    KEPT,
    Part(name="kernels beside reading", limit_s=40, run=beside),
    timed("one trainer"),
    timed("one trainer, nothing ahead", "--samplers", 0, "--prefetch", 0),
    timed("one trainer, every row from the host", "--cache", "none"),
    Part(name="overlap: gather", limit_s=40, run=partial(overlap, loader="gather")),
    Part(name="overlap: zero-copy", limit_s=40, run=partial(overlap, loader="zero-copy")),
    timed("one trainer, bfloat16 rows", "--cache", "none", "--feature-dtype", "bfloat16"),
    timed("one trainer, bf16-mixed", "--precision", "bf16-mixed"),
    timed("one trainer, 16-mixed", "--precision", "16-mixed"),
    Part(name="one trainer, links", limit_s=40, run=links),
    Part(name="one trainer, the whole graph", limit_s=40, run=whole_graph),
    Part(name="tests", limit_s=150, run=tests),
    same(f"{SHARED}: split, cached", parts=4, there=CACHED),
    same(f"{SHARED}: data, caches of peers", *DATA, parts=4, there=CACHED),
    same(f"{SHARED}: groups", "--split-group", 2, parts=4),
)
"""Parts for one GPU. Trainers that share it talk over sockets, so their times mean nothing and are not told."""
