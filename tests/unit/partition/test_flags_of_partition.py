"""Every flag of ``python -m gsplit.partition`` and of its ``report`` does something, or the tables say why not."""

from __future__ import annotations

import functools
import json
import operator
import os
from pathlib import Path

import pytest
from support.flags import Row, Table, assert_complete, rows_of
from support.graphs import lay_out, random_graph
from support.messages import line_with
from support.typed_graphs import random_typed_graph

from gsplit.config.partition import ReportConfig
from gsplit.data import open_layout, write_store
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, partition
from gsplit.partition.__main__ import command
from gsplit.sampling import sampler_of


def permutation(out: Path) -> list[int]:
    """Where every vertex went."""
    return open_layout(out).permutation.tolist()


def described(*keys: str, of=lambda out: open_layout(out).description):
    return lambda out: functools.reduce(operator.getitem, keys, of(out))


PRESAMPLED = {"weights": "presample", "threads": 1, "fan_out": (4, 4), "batch_size": 40}
LADIES = {**PRESAMPLED, "sampling": "ladies", "layer_sizes": (20, 20)}
UNIFORM = {**PRESAMPLED, "sampling": "uniform", "subgraph": "20%"}
PARTITION: Table = {
    "store": Row(value=lambda place: place / "other", see=permutation),
    "out": Row(value=lambda place: place / "elsewhere", see=lambda out: out.name == "elsewhere"),
    "parts": Row(value=3, see=lambda out: open_layout(out).parts),
    "method": Row(value="random", see=permutation),  # a file: test_own_parts.py
    "keep": Row(value=lambda place: partitioned(place, 9, method="random"), see=permutation),
    "weights": Row(value="degree", see=permutation),
    "hotness": Row(value="presample", see=permutation),
    "fan_out": Row(value=(2, 2), see=permutation, base=PRESAMPLED),
    "fan_out_of": Row(
        value="r1=0,0",
        see=lambda out: [each.tolist() for each in open_layout(out, typed=True).permutations],
        base={**PRESAMPLED, "store": lambda place: place / "typed"},
    ),
    "task": Row(value="links", see=permutation, base=PRESAMPLED),
    "sampling": Row(value="fastgcn", see=permutation, base=LADIES),
    "layer_sizes": Row(value=(40, 5), see=permutation, base=LADIES),
    "subgraph": Row(value="50%", see=permutation, base=UNIFORM),
    "num_layers": Row(value=1, see=permutation, base=UNIFORM),
    "batch_size": Row(value=20, see=permutation, base=PRESAMPLED),
    "presample_epochs": Row(value=1, see=permutation, base=PRESAMPLED),
    "threads": "only the time changes: test_threads_reach_the_samplers, below",
    "imbalance": Row(value=0.4, see=permutation, base={"method": "streaming"}),
    "even_types": Row(
        value=1.01,
        see=lambda out: [offsets.tolist() for offsets in open_layout(out, typed=True).offsets_by_type],
        base={"store": lambda place: place / "typed", "seed": 5},
    ),
    "cuts": Row(value=5, see=permutation),
    "seed": Row(value=2, see=permutation),  # METIS's generator takes 0 and 1 for the same
    "dry_run": "the command prints and writes nothing: test_a_dry_run_writes_nothing, below",
    "overwrite": "where a layout is in --out it is refused or replaced: test_overwrite_replaces_a_layout, below",
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    for seed, name in enumerate(("store", "other")):
        write_store(folder / name, random_graph(200, 6, seed=seed), name=name, source="test")
    write_store(folder / "typed", random_typed_graph(2, 3, vertices=900), name="typed", source="test")
    return folder


def partitioned(folder: Path, number: int, **changes) -> Path:
    config = PartitionConfig(**{"store": folder / "store", "out": folder / f"layout-{number}", "parts": 2, **changes})
    partition(config)
    return config.out


@pytest.fixture
def place(tmp_path, stores):
    for name in ("store", "other", "typed"):
        (tmp_path / name).symlink_to(stores / name)
    return tmp_path


def test_the_table_of_partition_is_complete():
    assert_complete(PARTITION, PartitionConfig)


@pytest.mark.parametrize("flag", rows_of(PARTITION))
def test_the_flag_of_partition_does_something(place, flag):
    row = PARTITION[flag]
    base, changed = row.values(flag, place)
    seen = row.see(partitioned(place, 0, **base))
    assert row.see(partitioned(place, 1, **base)) == seen  # or a difference would prove nothing
    assert row.see(partitioned(place, 2, **changed)) != seen


def test_a_dry_run_writes_nothing(place, capsys):
    command([str(place / "store"), "--parts", "2", "--out", str(place / "layout"), "--dry-run"])
    assert "nothing is written" in capsys.readouterr().out
    assert not (place / "layout").exists()
    command([str(place / "store"), "--parts", "2", "--out", str(place / "layout")])
    assert (place / "layout").exists()


def test_overwrite_replaces_a_layout(place):
    before = permutation(partitioned(place, 0))
    with pytest.raises(InputError, match=line_with("--out, --overwrite")):
        partitioned(place, 0, method="random")
    assert permutation(place / "layout-0") == before
    assert permutation(partitioned(place, 0, method="random", overwrite=True)) != before


def test_threads_reach_the_samplers(place, monkeypatch, layouts):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for name in ("presample", "report"):
        given = []

        def make(*arguments, given=given, **options):
            given.append(options["threads"])
            return sampler_of(*arguments, **options)

        monkeypatch.setattr("gsplit.sampling.rule.sampler_of", make)
        if name == "presample":
            partitioned(place, 0, **{**PRESAMPLED, "threads": 3})
        else:
            command(["report", str(layouts(2).path), "--out", str(place / "report"), "--threads", "3"])
        assert set(given) == {3}


def reported(*keys: str):
    return described(*keys, of=lambda out: json.loads(out.with_name(out.name + ".json").read_text()))


REPORT: Table = {
    "layout": Row(value=lambda place: lay_out(random_graph(90, 6), place, parts=3).path, see=reported("sampled")),
    "out": Row(value=lambda place: place / "elsewhere", see=lambda out: out.name == "elsewhere"),
    "fan_out": Row(value=(2, 2), see=reported("sampled")),
    "fan_out_of": Row(
        value="r1=0,0,0",
        see=reported("sampled"),
        base={"layout": lambda place: partitioned(place, 8, method="random", store=place / "typed")},
    ),
    "task": Row(value="links", see=reported("sampled")),
    "sampling": Row(value="fastgcn", see=reported("sampled"), base={"sampling": "ladies", "layer_sizes": (20, 20)}),
    "layer_sizes": Row(value=(9, 9), see=reported("sampled"), base={"sampling": "ladies", "layer_sizes": (20, 20)}),
    "subgraph": Row(value="50%", see=reported("sampled"), base={"sampling": "uniform", "subgraph": "20%"}),
    "num_layers": Row(value=1, see=reported("sampled"), base={"sampling": "uniform", "subgraph": "20%"}),
    "batch_size": Row(value=20, see=reported("sampled")),
    "epochs": Row(value=2, see=reported("sampled")),
    "seed": Row(value=1, see=reported("sampled")),
    "threads": "only the time changes: test_threads_reach_the_samplers, below",
}


def test_the_table_of_report_is_complete():
    assert_complete(REPORT, ReportConfig)


@pytest.fixture(autouse=True)
def _no_picture(monkeypatch):
    monkeypatch.setattr("gsplit.partition.show.draw", lambda measured: b"")  # it takes most of the time


@pytest.mark.parametrize("flag", rows_of(REPORT))
def test_the_flag_of_report_does_something(place, layouts, flag):

    def run(number, **changes):
        arguments = {"layout": layouts(2).path, "out": place / f"report-{number}", **changes}
        flags = (
            word
            for name, value in arguments.items()
            if name != "layout"
            for word in (f"--{name}", ",".join(map(str, value)) if isinstance(value, tuple) else value)
        )
        command(["report", *map(str, [arguments["layout"], *flags])])
        return arguments["out"]

    row = REPORT[flag]
    base, changed = row.values(flag, place)
    seen = row.see(run(0, **base))
    assert row.see(run(1, **base)) == seen
    assert row.see(run(2, **changed)) != seen


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "magic"}, "--method, auto, metis, magic"),
        ({"parts": 2.0}, "--parts, 2.0"),
        ({"imbalance": float("nan")}, "--imbalance, 0, 1, 0.03, nan"),
        ({"presample_epochs": 2**31}, "--presample-epochs, 2147483647, 2147483648"),
        ({"fan_out": ()}, "--fan-out"),
    ],
)
def test_what_comes_from_python_is_checked_as_well(changes, message):
    with pytest.raises(InputError, match=line_with(message)):
        PartitionConfig(store="store", out="layout", **changes)
    config = PartitionConfig(store="store", out="layout", fan_out=[3, 2])
    assert (config.store, config.out, config.fan_out) == (Path("store"), Path("layout"), (3, 2))
