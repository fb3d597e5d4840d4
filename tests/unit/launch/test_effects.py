"""A flag without effect is refused where it says what is computed, and warned of where it is for time or memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.graphs import lay_out, random_graph
from support.messages import line_with, says
from torch_geometric.nn import GraphSAGE

from gsplit import TrainConfig, cli
from gsplit.config.rules import COST, RESULTS, marked
from gsplit.config.train import save_configurations
from gsplit.errors import InputError
from gsplit.launch.effects import warn
from gsplit.launch.resolve import resolve
from gsplit.launch.resume import resume_config
from gsplit.nn import SAGE


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unused")
    layout = lay_out(random_graph(30, 3), folder, parts=2).path
    return TrainConfig(layout=layout, out=folder / "run", device="cpu", fan_out=(2,), gpus=2, samplers=1)


WHOLE = {"strategy": "full", "fan_out": (-1,), "samplers": None}
UNIFORM = {"sampling": "uniform", "subgraph": "50%", "fan_out": (20, 20, 20), "num_layers": 1}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"algorithm": "rotate"}, "--algorithm rotate, --strategy split"),
        ({**UNIFORM, "algorithm": "2d", "grid": (2, 1, 1)}, "--algorithm 2d, --strategy split, 3d or rotate"),
        ({"strategy": "data", "algorithm": "rotate"}, "--algorithm rotate, --strategy data, full and split"),
        ({"strategy": "data", "grid": (2, 1, 1)}, "--grid, 2,1,1, --strategy data"),
        ({"replication": 2}, "--replication, 2, --strategy split"),
        ({**WHOLE, "accumulate": 2}, "--accumulate, 2, --strategy full"),
        ({**WHOLE, "subgraph": "10%"}, "--subgraph, 10%, --strategy full"),
        ({**WHOLE, "fresh": True}, "--fresh, --strategy full"),
        ({**UNIFORM, "fresh": True, "grid": (2, 1, 1)}, "--fresh, --grid 2,1,1"),
        ({**WHOLE, "estimate": "unbiased"}, "--estimate unbiased, --strategy full"),
        ({**WHOLE, "importance": "norms"}, "--importance norms, --strategy full"),
        ({**WHOLE, "draw": "race"}, "--draw race, --strategy full"),
        ({**WHOLE, "validate_every_batches": 2}, "--validate-every-batches, 2, --strategy full"),
        ({"fan_out_of": {"cites": (2,)}}, "--fan-out-of, cites=2, one type"),
        ({"heads": 2}, "--heads, 2, --model sage"),
        ({"normalization": "mean"}, "--normalization mean, --model sage"),
        ({"model": "sage", "self_loops": False}, "--no-self-loops, --model sage"),
        ({"model": "gcn", "attention_dropout": 0.5}, "--attention-dropout, 0.5, --model gcn"),
        ({"momentum": 0.9}, "--momentum, 0.9, --optimizer adam"),
        ({"huber_delta": 2.0}, "--huber-delta, 2.0, --loss huber"),
        ({"lr_patience": 3}, "--lr-patience, 3, --lr-schedule constant"),
        ({"lr_gamma": 0.5, "lr_schedule": "cosine"}, "--lr-gamma, 0.5, --lr-schedule cosine"),
        ({"evaluate": "none", "validate_every": 3}, "--validate-every, 3, --evaluate none"),
        ({"validate_fan_out": (3,)}, "--validate-fan-out, 3, --evaluate exact"),
        ({"validate_vertices": 3, "validate_every": 0}, "--validate-vertices, 3"),
    ],
)
def test_what_would_change_what_is_computed_is_refused(config, caplog, changes, said):
    with pytest.raises(InputError, match=line_with(said, "drop it")):
        resolve(replace(config, **changes))
    assert not caplog.records


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"permutation": "single"}, "--permutation single, --strategy split"),
        ({"row_blocks": 2}, "--row-blocks, 2, --algorithm auto, rotate"),
        ({**WHOLE, "samplers": 2}, "--samplers, 2, --strategy full"),
        ({**WHOLE, "cache_size": "10%"}, "--cache-size, 10%, --strategy full"),
        ({"graph": "move"}, "--graph move, --strategy split"),
        ({**WHOLE, "graph": "move"}, "--graph move, --algorithm shared, 2d, 3d and columns"),
        ({**WHOLE, "graph": "move", "algorithm": "rotate", "model": "gcn"}, "--graph move, --algorithm rotate, 2d"),
        ({**WHOLE, "graph": "move", "algorithm": "3d", "grid": (2, 1, 1)}, "--graph move, --grid 2,1,1, one trainer"),
        ({**WHOLE, "row_blocks": 4}, "--row-blocks, 4, --algorithm shared, rotate"),
        ({**WHOLE, "exchange_dtype": "bfloat16"}, "--exchange-dtype, bfloat16, --algorithm shared"),
        ({"cache": "none", "cache_size": "1MiB"}, "--cache-size, 1MiB, --cache none"),
        ({**WHOLE, "prefetch": 3}, "--prefetch, 3, --strategy full"),
        ({**WHOLE, "bulk": "4"}, "--bulk, 4, --strategy full"),
        ({"samplers": 0, "slots": 3}, "--slots, 3, --samplers 0"),
        ({"exchange_dtype": "bfloat16", "gpus": 1}, "--exchange-dtype, bfloat16"),
        ({"warmup": 5, "epochs": 4}, "--warmup, 5, --epochs 4, --lr"),
        ({**WHOLE, "warmup": 1}, "--warmup, 1, --strategy full"),
        ({"warmup": 4, "epochs": 4}, None),
        ({"lr_step_size": 5, "lr_gamma": 0.5, "lr_schedule": "step"}, None),
        ({"momentum": 0.9, "optimizer": "sgd"}, None),
        ({"evaluate": "none", "validate_every": 0}, None),
        ({**WHOLE, "cache": "none"}, None),
    ],
)
def test_what_is_for_time_or_memory_is_warned_of(config, caplog, changes, said):
    warn(resolve(replace(config, **changes)))
    assert len(caplog.records) == (said is not None)
    if said is not None:
        says(caplog.records[0].message, said)


def test_a_dropout_of_nothing_is_not_refused_of_a_model_of_the_user_s(config, caplog):
    """It asks for nothing; any other would not be what the model drops."""
    model = SAGE(5, 4, 3, num_layers=1)
    warn(resolve(replace(config, dropout=0.0), model))
    assert not caplog.records
    with pytest.raises(InputError, match=line_with("--dropout, 0.5, SAGE")):
        resolve(replace(config, dropout=0.5), model)


def test_layers_of_a_model_of_the_user_s_are_not_computed_again(config, caplog):
    asked = replace(config, **WHOLE, recompute=True)
    for model in (None, SAGE(5, 4, 3, num_layers=1)):
        warn(resolve(asked, model))
    assert not caplog.records
    warn(resolve(asked, GraphSAGE(5, 4, 1, 3)))
    says(caplog.records[0].message, "--recompute, no effect, GraphSAGE")


def test_of_the_whole_graph_no_sums_are_exchanged(config, caplog):
    run = resolve(replace(config, **WHOLE, exchange="auto"))
    assert (run.config.exchange, run.settings["exchange"]) == ("rows", "rows")


def test_a_file_without_a_value_is_damaged(config, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(config.to_json(("lr",)))
    with pytest.raises(InputError, match=line_with("config.json, --lr, None")):
        TrainConfig.from_json(path)
    path.write_text(config.to_json(("hidden",)))
    assert TrainConfig.from_json(path).hidden == TrainConfig().hidden


def test_what_results_depend_on_is_refused():
    """``order``, what is exchanged and where pairs are scored are given for time, though they change results."""
    changing = set(marked(TrainConfig, RESULTS)) & set(marked(TrainConfig, COST))
    assert changing == {"order", "exchange", "exchange_dtype", "score_at"}


def test_a_run_that_goes_on_is_refused_what_is_given_now_and_warned_of_what_was_before(config, caplog, tmp_path):
    """Flags of before stand in its configuration, and need not be taken back one by one."""
    begun = replace(config, out=tmp_path / "run", accumulate=2, batch_size=64, samplers=None)
    begun.out.mkdir()
    save_configurations(begun.out, begun, begun, ())

    def gone_on(**changes):
        again, before = resume_config(TrainConfig.resuming(begun.out, **changes))
        return resolve(again, before=before.config)

    warn(gone_on(strategy="full"))
    lines = [record.message for record in caplog.records]
    for flag in ("--batch-size, 64", "--accumulate, 2"):
        says("\n".join(lines), flag, "--strategy full")
    assert len(lines) == 3  # and of --fan-out
    for flags, said in (
        ({"strategy": "full", "accumulate": 3}, "--accumulate, 3, --strategy full, drop it"),
        ({"algorithm": "rotate"}, "--algorithm rotate, --strategy split, drop it"),
        ({"momentum": 0.5}, "--momentum, 0.5, --optimizer adam, drop it"),
    ):
        with pytest.raises(InputError, match=line_with(said)):
            gone_on(**flags)


def test_the_command_ends_with_one_line(config, capsys, monkeypatch):
    words = f"{config.layout} --out {config.out} --fan-out 2 --device cpu --algorithm rotate".split()
    monkeypatch.setattr("sys.argv", ["gsplit train", *words])
    from gsplit.train.__main__ import command

    with pytest.raises(SystemExit) as end:
        cli.main(command)
    assert end.value.code == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    says(printed, "error:, --algorithm rotate, --strategy split, full, drop it")
    assert not config.out.exists()
