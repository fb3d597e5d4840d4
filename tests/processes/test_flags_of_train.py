"""Every flag of ``python -m gsplit.train`` does something, or the table says why nothing can be seen of it.

A run of two mini-batches goes the whole way of ``gsplit.train``, but for the processes: its trainers are the pool's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from support.flags import Row, Table, assert_complete, rows_of
from support.graphs import lay_out, random_graph, regression_graph
from support.links import linked_graph
from support.messages import line_with
from support.runs import InPool, all_equal, records
from support.typed_graphs import lay_out_types, random_typed_graph

import gsplit
from gsplit.config.train import TrainConfig
from gsplit.runs import checkpoint
from gsplit.sampling import rule
from gsplit.supply import sampler_process as process

BASE = {
    "fan_out": (4, 4),
    "batch_size": 75,
    "hidden": 8,
    "epochs": 1,
    "lr": 0.01,
    "dropout": 0.0,
    "threads": 1,
    "samplers": 0,
    "validate_every": 0,
    "checkpoint_every": 0,
}


@dataclass
class Seen:
    """What a run left behind."""

    run: Path
    result: dict
    begun: int
    """Threads of trainer 0."""
    told: dict
    """What the samplers were told, by flag."""

    @property
    def files(self) -> set[str]:
        return {path.name for path in self.run.iterdir() if not path.name.startswith(("checkpoint-", "model-"))}


def weights(seen: Seen) -> dict:
    """Of the last mini-batch (nothing was validated): types, shapes and a hash of every bit."""
    state = checkpoint.load_state(seen.run, checkpoint.MODEL)
    return {name: (tensor.dtype, tensor.shape, hash(tensor.numpy().tobytes())) for name, tensor in state.items()}


def files(seen: Seen) -> set[str]:
    return seen.files


def summary(*keys: str):
    return lambda seen: [seen.result[key] for key in keys]


def traffic(*keys: str):
    return lambda seen: [seen.result["traffic"][key] for key in keys]


def told(key: str):
    return lambda seen: seen.told[key]


GAT = {"model": "gat", "heads": 4}
CACHED = {"cache": "partitioned", "cache_size": "50%"}
SAMPLED = {"samplers": 1}
PLATEAU = {"lr_schedule": "plateau", "lr": 1e-6, "epochs": 4, "validate_every": 1}
FULL = {"strategy": "full", "fan_out": (-1, -1), "batch_size": 512}
LADIES = {"sampling": "ladies", "layer_sizes": (20, 20), "fan_out": (-1, -1)}
UNIFORM = {"sampling": "uniform", "subgraph": "30%", "fan_out": (-1, -1), "num_layers": 2, "batch_size": 512}
CLUSTERS = {**UNIFORM, "sampling": "clusters", "subgraph": None, "clusters": 1}
LINKS = {"layout": lambda place: place.links(), "task": "links"}
TYPED = {"layout": lambda place: place.several_types(), "model": "rgcn", "train_features": 4}
ROTATE = {**FULL, "model": "gcn", "algorithm": "rotate"}
TRAIN: Table = {
    "layout": Row(value=lambda place: place.layouts(3).path, see=summary("trainers")),
    "out": Row(value=lambda place: place.folder / "elsewhere", see=lambda seen: seen.run.name == "elsewhere"),
    "gpus": Row(value=1, see=summary("trainers")),
    "device": "there is no GPU to choose; tests/unit/device/test_devices.py pretends that there are some",
    "model": Row(value="gcn", see=weights),
    "model_args": Row(value="norm=batch_norm", see=weights, base={"model": "torch_geometric.nn:GraphSAGE"}),
    "check_model": Row(value=True, see=lambda seen: list(seen.result)),
    "dry_run": Row(value=True, see=lambda seen: list(seen.result), base=FULL),
    "hosts_hint": Row(
        value=2, see=lambda seen: "between hosts" in seen.result["plans"], base={**FULL, "dry_run": True}
    ),
    "num_layers": "it only repeats how many numbers --fan-out has, and is refused where it does not",
    "hidden": Row(value=4, see=weights),
    "dropout": Row(value=0.5, see=weights),
    "input_dropout": Row(value=0.5, see=weights),
    "norm": Row(value="layer", see=weights),
    "residual": Row(value=True, see=weights),
    "residual_after": Row(value=True, see=weights, base={"residual": True}),
    "output_projection": Row(value=True, see=weights),
    "input_projection": Row(value=True, see=weights),
    "heads": Row(value=2, see=weights, base=GAT),
    "out_heads": Row(value=3, see=weights, base=GAT),
    "attention_dropout": Row(value=0.5, see=weights, base=GAT),
    "negative_slope": Row(value=0.9, see=weights, base=GAT),
    "normalization": Row(value="mean", see=weights, base={"model": "gcn"}),
    "self_loops": Row(value=False, see=weights, base=GAT),
    "bases": Row(value=2, see=weights, base=TYPED),
    "edge_weights": Row(value=True, see=weights, base=TYPED),
    "precision": Row(value="bf16-mixed", see=weights),
    "dtype": Row(value="float64", see=weights),
    "normalize_features": Row(value=True, see=weights),
    "fan_out": Row(value=(4, 3), see=traffic("sampled_edges")),
    "fan_out_of": Row(value="r2=1,1", see=traffic("sampled_edges"), base=TYPED),
    "sampling": Row(value="fastgcn", see=weights, base=LADIES),
    "layer_sizes": Row(value=(20, 30), see=traffic("sampled_edges"), base=LADIES),
    "subgraph": Row(value="50%", see=lambda seen: len(records(seen.run, "mini-batch")), base=UNIFORM),
    "fresh": Row(value=True, see=traffic("sampled_edges"), base=UNIFORM),
    "clusters": Row(value=2, see=lambda seen: len(records(seen.run, "mini-batch")), base=CLUSTERS),
    "estimate": Row(value="unbiased", see=weights, base=LADIES),
    "importance": Row(value="counts", see=traffic("sampled_edges"), base=LADIES),
    "draw": Row(value="race", see=traffic("sampled_edges"), base=LADIES),
    "task": Row(value="links", see=lambda seen: seen.result["metrics"], base={"layout": lambda place: place.links()}),
    "pairs": Row(value="edges", see=traffic("pairs"), base=LINKS),
    "epoch_pairs": Row(value=30, see=traffic("pairs"), base=LINKS),
    "negatives": Row(value="joint:8,in-batch", see=traffic("candidates"), base=LINKS),
    "negatives_from": Row(value="destinations", see=weights, base=LINKS),
    "degree_share": Row(value=0.5, see=weights, base=LINKS),
    "corrupt": Row(value="source", see=weights, base=LINKS),
    "filter_negatives": Row(value=False, see=weights, base={**LINKS, "negatives": "uniform:8"}),
    "exclude": Row(value="none", see=weights, base={**LINKS, "pairs": "edges"}),
    "exclude_below": Row(value=2, see=weights, base={**LINKS, "pairs": "edges"}),
    "embedding": Row(value=4, see=weights, base=LINKS),
    "score": Row(value="mlp", see=weights, base=LINKS),
    "score_args": Row(value="hidden=3", see=weights, base={**LINKS, "score": "mlp"}),
    "score_at": Row(value="destination", see=traffic("score_rows"), base=LINKS),
    "temperature": Row(value=0.1, see=weights, base={**LINKS, "loss": "softmax"}),
    "log_q": Row(value=True, see=weights, base={**LINKS, "loss": "softmax", "negatives": "uniform:2,in-batch"}),
    "margin": Row(value=5.0, see=weights, base={**LINKS, "loss": "margin"}),
    "evaluate_negatives": Row(value="uniform:3", see=summary("test_mrr"), base=LINKS),
    "batch_size": Row(value=50, see=lambda seen: len(records(seen.run, "mini-batch"))),
    "epochs": Row(value=2, see=lambda seen: len(records(seen.run))),
    "early_stop": Row(value=1, see=lambda seen: len(records(seen.run)), base={"epochs": 9, "validate_every": 1}),
    "optimizer": Row(value="adamw", see=weights, base={"weight_decay": 0.1}),
    "lr": Row(value=0.02, see=weights),
    "lr_schedule": Row(value="cosine", see=weights),
    "warmup": Row(value=1, see=weights),
    "lr_step_size": Row(value=1, see=weights, base={"lr_schedule": "step", "epochs": 2}),
    "lr_gamma": Row(value=0.5, see=weights, base={"lr_schedule": "step", "lr_step_size": 1, "epochs": 2}),
    "lr_patience": Row(value=0, see=lambda seen: records(seen.run)[-1]["lr"], base=PLATEAU),
    "momentum": Row(value=0.9, see=weights, base={"optimizer": "sgd"}),
    "weight_decay": Row(value=0.1, see=weights),
    "clip_grad_norm": Row(value=0.01, see=weights, base={"optimizer": "sgd"}),
    "accumulate": Row(value=2, see=weights),
    "loss": Row(value="mae", see=weights, base={"layout": lambda place: place.numbers()}),
    "huber_delta": Row(value=0.1, see=weights, base={"layout": lambda place: place.numbers(), "loss": "huber"}),
    "class_weights": Row(value="1,2,3", see=weights),
    "label_smoothing": Row(value=0.1, see=weights),
    "focal_gamma": Row(value=2.0, see=weights),
    "metrics": Row(value="macro-f1,auroc", see=lambda seen: seen.result["metrics"]),
    "pos_weight": Row(value="3", see=weights, base={"layout": lambda place: place.several_labels()}),
    "init_from": Row(value=lambda place: place.trained(), see=weights),
    "seed": Row(value=1, see=weights),
    "threads": Row(
        value=2,
        see=lambda seen: checkpoint.describe_state(seen.run, checkpoint.CHECKPOINT)["threads"],
        base={"checkpoint_every": 1},
    ),
    "strategy": Row(value="data", see=traffic("computed_vertices")),
    "permutation": Row(value="single", see=weights, base=ROTATE),
    "recompute": Row(value=True, see=traffic("exchange_forward_bytes"), base={**FULL, **GAT, "algorithm": "1d"}),
    "row_blocks": Row(value=2, see=traffic("gather_forward_messages"), base=ROTATE),
    "train_features": Row(value=4, see=weights, base=FULL),
    "algorithm": Row(value="columns", see=traffic("to_columns_forward_bytes"), base=FULL),
    "grid": Row(value=(1, 2, 1), see=traffic("reduce_scatter_forward_bytes"), base=FULL),
    "graph": Row(value="move", see=traffic("edges_forward_bytes"), base={**FULL, "algorithm": "columns"}),
    "replication": Row(value=1, see=traffic("gather_forward_bytes"), base={**FULL, "algorithm": "1.5d"}),
    "silence": "one host is never silent to itself; tests/faults/test_hosts.py",
    "timeout": "on the CPU trainers wait as long as others live; tests/accelerator/test_first_exchange.py",
    "split_group": Row(value=1, see=traffic("computed_vertices")),
    "exchange": Row(value="auto", see=traffic("exchange_forward_bytes")),
    "exchange_dtype": Row(value="bfloat16", see=traffic("exchange_forward_bytes")),
    "cache": Row(value="replicated", see=summary("cache_rows"), base={"strategy": "data", **CACHED}),
    "cache_size": Row(value="20%", see=traffic("cache_hits"), base=CACHED),
    "loader": "on the CPU there is one way to load; tests/accelerator/test_loading.py has both",
    "feature_dtype": Row(value="bfloat16", see=weights),
    "samplers": Row(value=2, see=told("samplers"), base=SAMPLED),
    "slots": Row(value=7, see=told("slots"), base=SAMPLED),
    "bulk": Row(value="2", see=told("bulk"), base=SAMPLED),
    "order": Row(value="ready", see=weights, base={"gpus": 1, **SAMPLED}),  # the last mini-batch was finished first
    "prefetch": Row(value=0, see=lambda seen: seen.begun),
    "sampler_memory": Row(value="1KiB", see=told("memory"), base=SAMPLED),
    "sampler_threads": Row(value=2, see=told("threads"), base=SAMPLED),
    "max_sampler_restarts": Row(value=1, see=told("max_restarts"), base=SAMPLED),
    "validate_every": Row(value=1, see=lambda seen: records(seen.run)[0]["valid_accuracy"] is None),
    "evaluate": Row(
        value="none",
        see=lambda seen: [seen.result[f"{part}_accuracy"] is None for part in ("valid", "test")],
        base={"validate_every": 1},
    ),
    "validate_every_batches": Row(
        value=1, see=lambda seen: [r["kind"] for r in records(seen.run, "validation")], base={"validate_every": 1}
    ),
    "validate_vertices": Row(value=3, see=summary("valid_accuracy"), base={"validate_every": 1}),
    "validate_fan_out": Row(
        value=(1, 1),
        see=summary("test_accuracy", "valid_accuracy"),
        base={"validate_every": 1, "evaluate": "sampled"},
    ),
    "checkpoint_every": Row(value=1, see=files),
    "checkpoint_every_batches": Row(value=1, see=files),
    "resume": Row(value=lambda place: place.trained(), see=lambda seen: seen.run.name == "trained"),
    "log_every": "it writes lines and nothing else: tests/processes/test_recipes.py reads them",
    "profile": Row(value=True, see=files),
    "stop_on_nan": "it ends runs that are not finite: tests/processes/test_not_finite.py",
    "save_predictions": Row(value="classes", see=files),
    "overwrite": "where a run is in --out it is refused or replaced: test_overwrite_replaces_a_run, below",
    "continue_": "where a run is in --out it goes on: test_the_same_command_line_begins_goes_on_and_ends of faults",
}


class Recorder:
    """In place of the pool of samplers: what it is told, and what each of its samplers makes of that."""

    def __init__(self, monkeypatch) -> None:
        self.told: dict = {}
        monkeypatch.setattr("gsplit.supply.supplied.SamplerPool", self._pool)
        self._monkeypatch = monkeypatch

    def _pool(self, spec, tickets, **options):
        self.told = {**options, **self._sampler(spec)}
        return self

    slots: tuple = ()

    def end(self) -> None:
        pass

    def _sampler(self, spec) -> dict:
        """How a sampler process with this spec makes its sampler."""
        made = {}
        sampler = rule.sampler_of

        def make(*arguments, **options):
            made.update(options)
            return sampler(*arguments, **options)

        class Commands:
            def __init__(self):
                self.left = [spec]

            def recv(self):
                if not self.left:
                    raise EOFError
                return self.left.pop()

        with self._monkeypatch.context() as patch:
            patch.setattr(rule, "sampler_of", make)
            with pytest.raises(EOFError):
                process._serve(Commands(), None, None)
        return made


class Place:
    """Runs of two trainers in a folder, on layouts of which some are shared by all tests here."""

    def __init__(self, folder, shared, layouts, pool, monkeypatch) -> None:
        self.folder, self.shared, self.layouts = folder, shared, layouts
        self._monkeypatch = monkeypatch
        self._start = InPool(pool)
        monkeypatch.setattr("gsplit.launch.start.start", self._start)
        monkeypatch.setattr("gsplit.train.api.check_model", lambda *_: "compared")

    def trained(self) -> Path:
        """A run of one epoch, made once."""
        run = self.folder / "trained"
        if not run.exists():
            self.train(out=run, checkpoint_every=1)
        return run

    def several_labels(self) -> Path:
        """A layout of two parts whose vertices may have several labels."""
        graph = random_graph(100, 5, seed=1, classes=3, multi_label=True)
        return lay_out(graph, self.shared / "several", parts=2).path

    def several_types(self) -> Path:
        """A layout of two parts of a graph of four types and six weighted relations."""
        graph = random_typed_graph(4, 6, seed=38, weighted=True)
        return lay_out_types(graph, self.shared / "several-types", parts=2).path

    def links(self) -> Path:
        """A layout of two parts with training pairs beside its edges."""
        return lay_out(linked_graph(100, 6, given=True), self.shared / "links", parts=2).path

    def numbers(self) -> Path:
        """A layout of two parts whose vertices have numbers to be predicted."""
        return lay_out(regression_graph(100, 5, seed=1), self.shared / "numbers", parts=2).path

    def train(self, **changes) -> Seen:
        recorder = Recorder(self._monkeypatch)
        out = self.folder / f"run-{len(list(self.folder.iterdir()))}"
        config = TrainConfig(**{"layout": self.layouts(2).path, "out": out, "device": "cpu", **BASE, **changes})
        if config.resume:
            config = TrainConfig.resuming(config.resume, epochs=config.epochs)
        result = gsplit.train(config=config)
        begun = 0 if config.check_model or config.dry_run else self._start.results[0]["begun"]
        return Seen(run=config.resume or config.out, result=result, begun=begun, told=recorder.told)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def place(tmp_path, shared, layouts, pool, monkeypatch):
    return Place(tmp_path, shared, layouts, pool, monkeypatch)


@pytest.fixture(scope="module")
def unchanged():
    """Two equal runs without the flag, by what else they were given: many flags are held against the same."""
    return {}


def test_the_table_is_complete():
    assert_complete(TRAIN, TrainConfig)


@pytest.mark.parametrize("flag", rows_of(TRAIN))
def test_the_flag_does_something(place, flag, unchanged):
    row = TRAIN[flag]
    base, changed = row.values(flag, place)
    assert changed.get(flag) != {**vars(TrainConfig()), **BASE, **base}[flag]
    if repr(base) not in unchanged:
        unchanged[repr(base)] = place.train(**base), place.train(**base)
    seen, again = (row.see(run) for run in unchanged[repr(base)])
    assert again == seen  # or a difference would prove nothing
    assert row.see(place.train(**changed)) != seen


def test_overwrite_replaces_a_run(place):
    run = place.trained()
    before = checkpoint.load_state(run, checkpoint.MODEL)
    with pytest.raises(gsplit.InputError, match=line_with("--out, --overwrite")):
        place.train(out=run, seed=1)
    assert all_equal(checkpoint.load_state(run, checkpoint.MODEL), before)
    place.train(out=run, seed=1, overwrite=True)
    assert not all_equal(checkpoint.load_state(run, checkpoint.MODEL), before)


def test_the_seed_is_that_of_the_weights_and_of_the_sampling(place):
    before, after = (place.train(seed=seed, epochs=0) for seed in (0, 1))
    assert weights(before) != weights(after)
    counted = traffic("level_0_vertices", "sampled_edges", "host_rows", "segment_bytes")
    assert counted(place.train(seed=0)) == counted(place.train(seed=0)) != counted(place.train(seed=1))
