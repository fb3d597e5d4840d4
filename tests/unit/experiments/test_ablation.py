"""Ablations: what is changed, what is made of the rounds, and bytes of the exchange against a real run."""

from __future__ import annotations

import json

import pytest
from support.documents import undocumented
from support.graphs import lay_out, random_graph
from support.messages import line_with
from support.runs import config_for, records, train_in_trainer

from experiments.ablation import __main__ as ablation
from experiments.ablation.config import PYG, PYG_MODEL, AblationConfig
from experiments.ablation.exchange import counted_bytes, rows_by_layer
from experiments.ablation.variants import BASE, asked_of, changed_of, flags_of, words_of
from experiments.baselines.workload import STAGES, Epoch, Outcome
from experiments.compare import systems
from experiments.shared import processes
from gsplit.errors import InputError
from tools import comparison_record, results

FEATURES, HIDDEN = 100, 16


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A layout of 2 parts with the widths of the paper: 100 features, and 16 classes."""
    graph = random_graph(300, 10, seed=3, features=FEATURES, classes=HIDDEN)
    return lay_out(graph, tmp_path_factory.mktemp("wide"), parts=2)


def trained(pool, layout, out, **changes):
    """What two trainers exchanged in their first epoch, both ways, and with which configuration."""
    config = config_for(layout.path, out, gpus=2, epochs=1, hidden=HIDDEN, **changes)
    pool.run(2, train_in_trainer, config)
    traffic = records(out)[0]["traffic"]
    return traffic["exchange_forward_bytes"] + traffic["exchange_backward_bytes"], config


def test_sage_from_100_to_16_exchanges_at_most_0_4_of_the_raw_rows_both_ways(pool, wide, tmp_path):
    measured, config = trained(pool, wide, tmp_path / "run", fan_out=(5,))
    inputs = rows_by_layer(wide, config)[1] * FEATURES * 4
    assert measured / inputs == 2 * HIDDEN / FEATURES <= 0.4
    halved, _ = trained(pool, wide, tmp_path / "halved", fan_out=(5,), exchange_dtype="bfloat16")
    assert 2 * halved == measured


@pytest.mark.parametrize("changes", [{}, {"exchange_dtype": "bfloat16"}, {"precision": "bf16-mixed"}], ids=str)
def test_what_is_counted_is_what_a_run_exchanges(pool, wide, tmp_path, changes):
    measured, config = trained(pool, wide, tmp_path / "run", fan_out=(4, 3, 2), **changes)
    rows = rows_by_layer(wide, config)
    assert min(rows.values()) > 0
    assert sum(counted_bytes(rows, config, FEATURES, HIDDEN).values()) == measured


def test_a_change_is_flags_of_our_command():
    config = AblationConfig(gpus=2, threads=1, fan_out=(4, 3))
    assert (asked_of(config, "").gpus, asked_of(config, "").evaluate) == (2, "none")
    (threads,) = config.all_changes()["threads"]
    assert (asked_of(config, threads).gpus, asked_of(config, threads).threads) == (1, 2)
    assert not asked_of(config, "no-self-loops prefetch=3").self_loops
    assert asked_of(config, "cache_size=5%").cache_size == "5%"
    assert words_of(flags_of(config, "no-self-loops"))[-1] == "--no-self-loops"
    sizes = AblationConfig(studies=("batch",), batch_size=64).all_changes()
    assert sizes == {"batch": ("batch-size=16", "batch-size=32", "batch-size=128", "batch-size=256")}


def test_optimisations_are_real_flags_alone_and_together():
    config = AblationConfig(studies=("optimisations",), gpus=2, threads=1, fan_out=(4, 3), samplers=2)
    asked = {
        (study, change): asked_of(config, changed_of(config.base_of(study), change))
        for study, changes in config.all_changes().items()
        for change in (BASE, *changes)
    }
    ways = {study.removeprefix("optimisations, "): one for (study, change), one in asked.items() if change == BASE}
    assert {way: (one.strategy, one.sampling, one.layers) for way, one in ways.items()} == {
        "split": ("split", "neighbours", 2),
        "uniform": ("split", "uniform", 2),
        "whole graph": ("full", "neighbours", 2),
    }
    assert {(ways[way].samplers, ways[way].prefetch) for way in ("split", "uniform")} == {(0, 0)}
    together = asked["optimisations, uniform", "samplers=2 prefetch=1 precision=bf16-mixed"]
    assert (together.samplers, together.prefetch, together.precision) == (2, 1, "bf16-mixed")
    assert [change for study, change in asked if study.endswith("whole graph")] == [
        BASE,
        "exchange-dtype=bfloat16",
        "precision=bf16-mixed",
    ]


OF_EXCHANGE = ("exchange-dtype=bfloat16", "exchange=auto", "exchange=auto exchange-dtype=bfloat16")
SECONDS = {BASE: 2.0, **dict.fromkeys(OF_EXCHANGE, 1.0), "cache-size=5%": 3.0, PYG_MODEL: 3.0, "pyg": 9.0}


@pytest.fixture
def made_up(monkeypatch):
    """Runs take what SECONDS says; a change that it does not name fails."""

    def run(contender, graph, folder, *, limit_s, watch):
        folder.mkdir(parents=True)
        (folder / "stderr").touch()
        name = contender.system.name
        if name not in SECONDS:
            raise processes.RunFailed("exit code 1: told so")
        stages = {**dict.fromkeys(STAGES, 0.0), "computing": SECONDS[name] / 2}
        counts = {"edges": 10, "input_rows": 3, "loaded_bytes": 12, "exchanged_bytes": 64, "reduced_bytes": 8}
        epochs = [Epoch(seconds=SECONDS[name], stages=stages, loss=1.0, **counts)] * 2
        return systems.Ran(
            outcome=Outcome(epochs=epochs), used=processes.Used(wall_s=1.0, others_share=0.0, memory=None)
        )

    monkeypatch.setattr(systems, "run", run)


def run_ablation(tmp_path, *words):
    common = ("--quick", "--work", str(tmp_path / "work"), "--out", str(tmp_path / "out"))
    ablation.command([*common, *words])
    return json.loads((tmp_path / "out" / "ablation.json").read_text())


@pytest.mark.slow
def test_rounds_become_tables_and_a_record(tmp_path, made_up, capsys):
    result = run_ablation(tmp_path, "--studies", "exchange", "models", "--pairs", "2")
    tables = result["tables"]
    ratios = {(row["study"], row["change"], row["over"], row["what"]): row["ratio"] for row in tables["ratios"]}
    assert ratios == {
        **{("exchange", change, BASE, what): 0.5 for change in OF_EXCHANGE for what in ("epoch", "computing")},
        **{("models", PYG_MODEL, BASE, what): 1.5 for what in ("epoch", "computing")},
        **{("models", PYG, BASE, what): 4.5 for what in ("epoch", "computing")},
        **{("models", PYG, PYG_MODEL, what): 3.0 for what in ("epoch", "computing")},
    }
    exchange = {(row["study"], row["change"]): row for row in tables["exchange"]}
    assert ("models", PYG) not in exchange
    row = exchange["exchange", BASE]
    assert row["over_base"] == 1
    assert row["over_inputs"] == 64 / row["input_rows_bytes"]
    assert row["first_layer_over_inputs"] is None  # the made-up run did not exchange what is counted
    assert "| models | PyG itself | epoch | model=torch_geometric.nn:GraphSAGE |" in capsys.readouterr().out
    keys = {*result, *(key for rows in tables.values() for row in rows for key in row), *tables}
    assert undocumented("Ablation", keys) == []
    record = tmp_path / "record.json"
    comparison_record.command([str(tmp_path / "out" / "ablation.json"), "--out", str(record)])
    written = json.loads(record.read_text())
    assert written.keys() == results.KEYS
    assert written["commands"][0].startswith("python -m experiments.ablation --dataset tiny")
    assert written["commands"][0].endswith(" --quick --studies exchange models")
    assert {row["dataset"] for row in written["tables"]["exchange"]} == {"tiny"}
    words = [str(tmp_path / "out" / "ablation.json"), "--out", str(record), "--tables"]
    comparison_record.command([*words, "exchange"])
    assert json.loads(record.read_text())["tables"].keys() == {"graphs", "exchange"}
    with pytest.raises(InputError, match=line_with("systems, changes, ratios, exchange")):
        comparison_record.command([*words, "systems"])


@pytest.mark.slow  # what is asked, counted and shown is tested above and below without a process
def test_base_changes_and_pyg_in_processes(tmp_path):
    tables = run_ablation(tmp_path)["tables"]
    edges = {row["edges"] for row in tables["changes"]}
    assert len(tables["changes"]) == 9
    assert len(edges) == 1  # the same mini-batches everywhere, PyG's included
    exchange = {(row["study"], row["change"]): row for row in tables["exchange"]}
    assert exchange["exchange", "exchange-dtype=bfloat16"]["over_base"] == 0.5
    assert all(row["exchanged_bytes"] == row["counted_bytes"] for row in exchange.values() if row["counted_bytes"])
    assert tables["not_run"] == []


@pytest.mark.slow
def test_a_run_that_fails_is_listed_and_the_exit_code_is_1(tmp_path, made_up):
    with pytest.raises(SystemExit) as end:
        run_ablation(tmp_path, "--studies", "exchange", "--changes", "order=ready")
    assert end.value.code == 1
    (failed,) = json.loads((tmp_path / "out" / "ablation.json").read_text())["tables"]["not_run"]
    assert failed == {"system": "order=ready", "phase": "own", "reason": "exit code 1: told so"}


def test_mini_batches_of_pyg_that_are_other_ones_are_noticed():
    rows = [{"study": "models", "change": name, "edges": edges} for name, edges in ((PYG, 3), (PYG_MODEL, 4))]
    with pytest.raises(AssertionError, match="PyG computed other mini-batches"):
        ablation.check_same_edges(rows)
