"""Predictions of runs on graphs of several types: what dense matrices say, on any layout; what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.messages import line_with, says
from support.predictions import InPool
from support.runs import config_for, train_in_trainer
from support.typed_graphs import lay_out_types, random_typed_graph, with_features
from support.typed_models import dense_levels

import gsplit
from gsplit.errors import InputError
from gsplit.models.saved import load_described
from gsplit.nn import RGCN

FLAGS = {"model": "rgcn", "precision": "64", "train_features": 4, "batch_size": 6, "save_predictions": "logits"}
ASKED = np.array([7, 3, 7, 0, 11])  # neither sorted nor distinct


def typed_graph():
    """Four types t0 .. t3, six relations; t3 has no features."""
    return random_typed_graph(4, 6, seed=38)


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """typed(parts): layouts of one graph of four types, the last without features."""
    folder = tmp_path_factory.mktemp("typed")
    return lambda parts: lay_out_types(typed_graph(), folder, parts=parts)


@pytest.fixture(scope="module")
def featured(tmp_path_factory):
    """The same, and all types have features."""
    folder = tmp_path_factory.mktemp("featured")
    return lambda parts: lay_out_types(with_features(typed_graph()), folder, parts=parts)


def trained(pool, layout, out, world=2, **flags):
    """The folder of a run."""
    config = config_for(layout.path, out, **{**FLAGS, "epochs": 2, **flags})
    out.mkdir()
    (out / "config.json").write_text(config.to_json())
    pool.run(world, train_in_trainer, config)
    return out


@pytest.fixture(scope="module")
def run(living_pool, typed, tmp_path_factory):
    return trained(living_pool(), typed(2), tmp_path_factory.mktemp("runs") / "run", fan_out_of="r2=0,2")


@pytest.fixture(scope="module")
def plain(living_pool, featured, tmp_path_factory):
    """A run that has trained no features."""
    return trained(living_pool(), featured(2), tmp_path_factory.mktemp("runs") / "plain", train_features=None)


@pytest.fixture
def predict(pool, monkeypatch):
    monkeypatch.setattr("gsplit.predict.api.start", InPool(pool))
    return lambda run, layout, **options: gsplit.predict(run, layout.path, device="cpu", **options)


@pytest.mark.parametrize(("parts", "trainers"), [(1, 1), (2, 2), (3, 1), (3, 2)])
def test_predictions_are_those_of_the_run(run, typed, predict, tmp_path, parts, trainers):
    said = np.load(run / "predictions.npy")
    asked = {"vertices": ASKED, "gpus": trainers}
    logits = predict(run, typed(parts), what="logits", **asked)
    np.testing.assert_allclose(logits, said[ASKED], rtol=0, atol=1e-12)
    assert predict(run, typed(parts), out=tmp_path / "x.csv", **asked).tolist() == said[ASKED].argmax(1).tolist()
    assert (tmp_path / "x.csv").read_text().splitlines()[1] == f"7,{said[7].argmax()}"
    shares = predict(run, typed(parts), what="probabilities", vertices="test", gpus=trainers)
    wanted = torch.from_numpy(said[np.sort(typed_graph().test_idx)]).softmax(1)
    np.testing.assert_allclose(shares, wanted, rtol=0, atol=1e-12)


def dense_of(run, layout):
    """Level -> type -> vectors by global id, by the weights and the rows that a run has kept."""
    kept = load_described(run, None)
    rows = (
        {} if kept.trained is None else {3: kept.trained.double()[torch.from_numpy(np.array(layout.permutations[3]))]}
    )
    with torch.no_grad():
        levels = dense_levels(layout, kept.model.double(), trained=rows)
    orders = [np.argsort(each) for each in layout.permutations]
    return {
        level: [each[order].numpy() for each, order in zip(of, orders, strict=True)] for level, of in levels.items()
    }


def test_embeddings_of_any_type_that_the_level_has_equal_the_dense_ones(run, typed, predict):
    model = gsplit.load(run)
    assert isinstance(model, RGCN)
    dense, reach = dense_of(run, typed(3)), model.reach
    assert len(reach.types[1]) > 1
    for type_ in reach.types[1]:
        for options in ({}, {"fan_out": (-1, -1), "batch_size": 5}):
            found = predict(run, typed(3), what="embeddings", type=f"t{type_}", vertices=ASKED, gpus=2, **options)
            np.testing.assert_allclose(found, dense[1][type_][ASKED], rtol=0, atol=1e-10)
    last = predict(run, typed(2), what="embeddings", layer=2)
    np.testing.assert_allclose(last, dense[2][0], rtol=0, atol=1e-10)


def test_sampled_vectors_do_not_depend_on_layouts_and_trainers(run, typed, predict):
    exact = np.load(run / "predictions.npy")
    for options in ({"what": "logits"}, {"what": "embeddings", "type": "t1"}):
        drawn = {**options, "fan_out": (2, 1), "batch_size": 4, "vertices": ASKED}
        found = [predict(run, typed(parts), gpus=world, **drawn) for parts, world in ((1, 1), (3, 2), (3, 3))]
        for other in found[1:]:
            np.testing.assert_allclose(other, found[0], rtol=0, atol=1e-12)
        assert np.abs(predict(run, typed(1), **drawn, seed=5) - found[0]).max() > 1e-3
    whole = predict(run, typed(2), what="logits", fan_out=(-1, -1))
    np.testing.assert_allclose(whole, exact, rtol=0, atol=1e-12)


def test_relations_may_have_fan_outs_of_their_own(run, typed, predict):
    """Relation r2 was trained with 0 at the first hop, so the model has no weights for it there."""
    model = gsplit.load(run)
    assert isinstance(model, RGCN)
    into = {f"r{number}": (-1, -1) for number in model.reach.relations[1]}
    few = {"what": "logits", "fan_out": (1, 1), "vertices": ASKED}
    exact, ones = np.load(run / "predictions.npy")[ASKED], predict(run, typed(2), **few)
    found = predict(run, typed(3), **few, fan_out_of=into, gpus=2)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12)
    other = predict(run, typed(2), **few, fan_out_of="r2=5,-1")
    assert np.abs(other - exact).max() > 1e-3 < np.abs(other - ones).max()
    hidden = {"what": "embeddings", "type": "t1", "vertices": ASKED}
    exact = predict(run, typed(2), **hidden)
    drawn, none = (predict(run, typed(2), **hidden, fan_out=(7, 1), fan_out_of={"r1": (7, n)}) for n in (-1, 0))
    np.testing.assert_allclose(drawn, exact, rtol=0, atol=1e-12)
    assert np.abs(none - exact).max() > 1e-3
    with pytest.raises(InputError, match=line_with("--fan-out-of t1__r0__t0, no effect, level 1, type t1")):
        predict(run, typed(2), **hidden, fan_out=(7, 1), fan_out_of={"r0": (7, 1)})


@pytest.mark.parametrize("flags", [{"model": "rgat"}, {"model": "sage"}, {"edge_weights": True}], ids=str)
def test_other_models_and_weights_of_edges(pool, predict, tmp_path, flags):
    graph = random_typed_graph(4, 6, seed=38, weighted=True)
    two, three = (lay_out_types(graph, tmp_path, parts=parts) for parts in (2, 3))
    out = trained(pool, two, tmp_path / "run", **flags)
    said = np.load(out / "predictions.npy")
    for options in ({}, {"fan_out": (-1, -1), "batch_size": 5}):
        found = predict(out, three, what="logits", **options)
        np.testing.assert_allclose(found, said, rtol=0, atol=1e-12)
    hidden = [predict(out, each, what="embeddings", type="t1", gpus=2) for each in (two, three)]
    np.testing.assert_allclose(hidden[0], hidden[1], rtol=0, atol=1e-12)


def test_mixed_precision_predicts_as_the_run_did(pool, typed, predict, tmp_path):
    mixed = trained(pool, typed(2), tmp_path / "mixed", precision="bf16-mixed", epochs=1)
    said = np.load(mixed / "predictions.npy")
    assert np.array_equal(predict(mixed, typed(2), what="logits"), said)
    bound = 2**-5 * float(np.abs(said).max())  # of three roundings to 8 bits
    for parts, options in ((3, {}), (2, {"fan_out": (-1, -1)})):
        np.testing.assert_allclose(predict(mixed, typed(parts), what="logits", **options), said, rtol=0, atol=bound)
    hidden = predict(mixed, typed(3), what="embeddings", type="t1")
    assert hidden.dtype == np.float32
    np.testing.assert_allclose(hidden, dense_of(mixed, typed(3))[1][1], rtol=0, atol=2**-5 * np.abs(hidden).max())


def test_another_graph_of_the_same_schema_is_taken_with_a_warning(plain, featured, predict, tmp_path, caplog):
    other = lay_out_types(with_features(typed_graph(), seed=7), tmp_path, parts=3)
    dense = dense_of(plain, other)
    np.testing.assert_allclose(predict(plain, other, what="logits"), dense[2][0], rtol=0, atol=1e-10)
    says(caplog.text, "another store", str(other.path))
    assert not np.allclose(dense[2][0], dense_of(plain, featured(1))[2][0])


def other_target(graph):
    n = graph.schema.types[1].num_vertices
    sets = dict.fromkeys(("train_idx", "valid_idx", "test_idx"), np.arange(3))
    return replace(graph, target=1, labels=np.zeros(n, np.int64), **sets)


def narrower(graph):
    features = list(graph.features_by_type)
    features[1] = features[1][:, :1]
    return replace(graph, features_by_type=tuple(features))


def without_rows(graph):
    return replace(graph, features_by_type=(*graph.features_by_type[:3], None))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (lambda _: random_typed_graph(3, 6, seed=38), "types, t3 is not there"),
        (lambda _: random_typed_graph(4, 5, seed=38), "relations, t1__r5__t3 is not there"),
        (other_target, "type t1, labels, type t0"),
        (narrower, "1 features a vertex of type t1, 3"),
        (without_rows, "0 features a vertex of type t3, 4"),
    ],
    ids=["types", "relations", "target", "width", "no features"],
)
def test_a_graph_of_another_schema_is_refused(plain, tmp_path, changed, words):
    other = lay_out_types(changed(with_features(typed_graph())), tmp_path, parts=1)
    with pytest.raises(InputError, match=line_with(words)):
        gsplit.predict(plain, other.path, out=tmp_path / "x.npy", device="cpu")
    assert not (tmp_path / "x.npy").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"what": "embeddings", "type": "t9"}, "--type, t9"),
        ({"what": "embeddings", "type": "t1", "layer": 2}, "--type t1, level 2, t0, --layer"),
        ({"what": "logits", "type": "t1"}, "--type t1, --what embeddings"),
        ({"what": "embeddings", "type": "t1", "vertices": "train"}, "train, t0, --type, t1"),
        ({"what": "embeddings", "type": "t1", "vertices": [10**6]}, "1000000, of type t1"),
        ({"vertices": [10**6]}, "1000000, of type t0"),
        ({"fan_out": (3,)}, "--fan-out, 1, 2"),
        ({"fan_out": (3, 3), "gpus": 3}, "2 parts, --gpus 2"),
        ({"fan_out": (3, 3), "fan_out_of": "r9=1,1"}, "--fan-out-of, relation 'r9', t3__r1__t1, t0__r2__t0"),
        ({"fan_out": (3, 3), "fan_out_of": {"r2": (1,)}}, "--fan-out-of r2, 1 numbers, 2"),
        ({"fan_out_of": "r2=1,1"}, "--fan-out-of r2=1,1 needs --fan-out"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(run, typed, tmp_path, options, words):
    with pytest.raises(InputError, match=line_with(words)):
        gsplit.predict(run, typed(2).path, out=tmp_path / "x.npy", device="cpu", **options)
    assert not (tmp_path / "x.npy").exists()


def test_one_type_and_several_do_not_go_together(pool, run, typed, layouts, tmp_path):
    with pytest.raises(InputError, match=line_with("one type, several, t0, t1")):
        gsplit.predict(run, layouts(2).path, device="cpu")
    one = trained(pool, layouts(1), tmp_path / "one", world=1, model="sage", train_features=None, batch_size=300)
    with pytest.raises(InputError, match=line_with("several types, t0, graph of one")):
        gsplit.predict(one, typed(2).path, device="cpu")
    with pytest.raises(InputError, match=line_with("--type t1, one type")):
        gsplit.predict(one, layouts(2).path, what="embeddings", type="t1", device="cpu")


def test_rows_that_were_trained_are_of_one_graph(run, tmp_path):
    graph = typed_graph()
    other = lay_out_types(replace(graph, labels=np.zeros_like(graph.labels)), tmp_path, parts=1)
    with pytest.raises(InputError, match=line_with("another store, --train-features")):
        gsplit.predict(run, other.path, device="cpu")
