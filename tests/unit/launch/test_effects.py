"""A flag without effect is refused where it says what is computed, and warned of where it is for time or memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.graphs import lay_out, random_graph

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
        ({"algorithm": "rotate"}, "--algorithm rotate has no effect with --strategy split"),
        (
            {**UNIFORM, "algorithm": "rotate", "grid": (2, 1, 1)},
            "--algorithm rotate has no effect with --strategy split",
        ),
        ({"strategy": "data", "grid": (2, 1, 1)}, "--grid 2,1,1 has no effect with --strategy data"),
        ({"replication": 2}, "--replication 2 has no effect with --strategy split"),
        ({**WHOLE, "accumulate": 2}, "--accumulate 2 has no effect with --strategy full"),
        ({**WHOLE, "subgraph": "10%"}, "--subgraph 10% has no effect with --strategy full"),
        ({**WHOLE, "estimate": "unbiased"}, "--estimate unbiased has no effect with --strategy full"),
        ({**WHOLE, "importance": "norms"}, "--importance norms has no effect with --strategy full"),
        ({**WHOLE, "draw": "race"}, "--draw race has no effect with --strategy full"),
        ({**WHOLE, "validate_every_batches": 2}, "--validate-every-batches 2 has no effect with --strategy full"),
        ({"heads": 2}, "--heads 2 has no effect with --model sage"),
        ({"normalization": "mean"}, "--normalization mean has no effect with --model sage"),
        ({"model": "sage", "self_loops": False}, "--no-self-loops has no effect with --model sage"),
        ({"model": "gcn", "attention_dropout": 0.5}, "--attention-dropout 0.5 has no effect with --model gcn"),
        ({"momentum": 0.9}, "--momentum 0.9 has no effect with --optimizer adam"),
        ({"huber_delta": 2.0}, "--huber-delta 2.0 has no effect without --loss huber"),
        ({"lr_patience": 3}, "--lr-patience 3 has no effect with --lr-schedule constant"),
        ({"lr_gamma": 0.5, "lr_schedule": "cosine"}, "--lr-gamma 0.5 has no effect with --lr-schedule cosine"),
        ({"evaluate": "none", "validate_every": 3}, "--validate-every 3 has no effect with --evaluate none"),
        ({"validate_fan_out": (3,)}, "--validate-fan-out 3 has no effect with --evaluate exact"),
        (
            {"validate_vertices": 3, "validate_every": 0},
            "--validate-vertices 3 has no effect where nothing is validated",
        ),
    ],
)
def test_what_would_change_what_is_computed_is_refused(config, caplog, changes, said):
    with pytest.raises(InputError) as caught:
        resolve(replace(config, **changes))
    assert str(caught.value).startswith(said)
    assert str(caught.value).endswith("; drop it")
    assert not caplog.records


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"permutation": "single"}, "--permutation single has no effect with --strategy split"),
        ({"row_blocks": 2}, "--row-blocks 2 has no effect with --strategy split"),
        ({**WHOLE, "samplers": 2}, "--samplers 2 has no effect with --strategy full"),
        ({**WHOLE, "cache_size": "10%"}, "--cache-size 10% has no effect with --strategy full"),
        ({**WHOLE, "row_blocks": 4}, "--row-blocks 4 has no effect with --algorithm shared, only with rotate"),
        ({**WHOLE, "exchange_dtype": "bfloat16"}, "--exchange-dtype bfloat16 has no effect with --algorithm shared"),
        ({"cache": "none", "cache_size": "1MiB"}, "--cache-size 1MiB has no effect with --cache none, only with"),
        ({**WHOLE, "prefetch": 3}, "--prefetch 3 has no effect with --strategy full"),
        ({**WHOLE, "bulk": "4"}, "--bulk 4 has no effect with --strategy full"),
        ({"samplers": 0, "slots": 3}, "--slots 3 has no effect with --samplers 0"),
        (
            {"exchange_dtype": "bfloat16", "gpus": 1},
            "--exchange-dtype bfloat16 has no effect where no rows are exchanged",
        ),
        ({"warmup": 5, "epochs": 4}, "--warmup 5 lasts longer than --epochs 4: the rate never gets to --lr"),
        ({**WHOLE, "warmup": 1}, "--warmup 1 has no effect with --strategy full, where an epoch is one step"),
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
    assert said is None or caplog.records[0].message.startswith(said)


def test_a_dropout_of_nothing_is_not_refused_of_a_model_of_the_user_s(config, caplog):
    """It asks for nothing; any other would not be what the model drops."""
    model = SAGE(5, 4, 3, num_layers=1)
    warn(resolve(replace(config, dropout=0.0), model))
    assert not caplog.records
    with pytest.raises(
        InputError, match=r"--dropout 0\.5 has no effect on the model SAGE that was handed over; drop it"
    ):
        resolve(replace(config, dropout=0.5), model)


def test_of_the_whole_graph_no_sums_are_exchanged(config, caplog):
    run = resolve(replace(config, **WHOLE, exchange="auto"))
    assert (run.config.exchange, run.settings["exchange"]) == ("rows", "rows")


def test_a_file_without_a_value_is_damaged(config, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(config.to_json(("lr",)))
    with pytest.raises(InputError, match="damaged: --lr must be a number, not None"):
        TrainConfig.from_json(path)
    path.write_text(config.to_json(("hidden",)))
    assert TrainConfig.from_json(path).hidden == TrainConfig().hidden


def test_what_results_depend_on_is_refused():
    """``order`` and what is exchanged are given for time, though they change results."""
    changing = set(marked(TrainConfig, RESULTS)) & set(marked(TrainConfig, COST))
    assert changing == {"order", "exchange", "exchange_dtype"}


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
    told = {line.split(" has no effect with --strategy full")[0] for line in lines if "no effect" in line}
    assert told == {"--batch-size 64", "--accumulate 2"}
    for flags, said in (
        ({"strategy": "full", "accumulate": 3}, "--accumulate 3 has no effect with --strategy full.*; drop it"),
        ({"algorithm": "rotate"}, "--algorithm rotate has no effect with --strategy split.*; drop it"),
        ({"momentum": 0.5}, "--momentum 0.5 has no effect with --optimizer adam.*; drop it"),
    ):
        with pytest.raises(InputError, match=said):
            gone_on(**flags)


def test_the_command_ends_with_one_line(config, capsys, monkeypatch):
    words = f"{config.layout} --out {config.out} --fan-out 2 --device cpu --algorithm rotate --grid 2,1,1".split()
    monkeypatch.setattr("sys.argv", ["gsplit train", *words])
    from gsplit.train.__main__ import command

    with pytest.raises(SystemExit) as end:
        cli.main(command)
    assert end.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert said == ["error: --algorithm rotate has no effect with --strategy split, only with full; drop it"]
    assert not config.out.exists()
