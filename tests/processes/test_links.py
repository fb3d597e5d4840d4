"""Laws 2 to 4 for pairs, with 2, 3 and 4 trainers."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.dense import Dense
from support.libraries import HAS_DGL
from support.links import ALONE, WIDTH, LinkStep, linked_layouts, rule_of

from gsplit.data import open_layout
from gsplit.models.decoding import decoder_of
from gsplit.nn.decoders import OwnDecoder
from gsplit.parallel import trainer_grid
from gsplit.sampling.links import Negatives

NEGATIVES = {
    "uniform": Negatives(uniform=2),
    "joint": Negatives(joint=9),
    "in-batch": Negatives(in_batch=True),
    "hard": Negatives(hard=2),
    "near": Negatives(near=2),
    "all": Negatives(uniform=1, joint=5, chunk=9, in_batch=True, hard=1, near=2),
    "source": Negatives(uniform=2, joint=5, near=1),
    "both": Negatives(uniform=3, joint=5, chunk=9, in_batch=True, near=2),
    "log-q": Negatives(uniform=2, joint=5, chunk=7, in_batch=True, degree_share=0.4, log_q=True),
}
OWN = {
    "own": Negatives(uniform=2, hard=1),
    "own-source": Negatives(uniform=1, near=1),
    "own-both": Negatives(uniform=3, near=2),
}
CORRUPT = {"source": "source", "both": "both", "own-source": "source", "own-both": "both"}
DECODERS = ("dot", "cosine", "distmult", "mlp")
LOSSES = ("bce", "softmax", "bpr", "margin")
MODELS = ("sage", "gcn-batch-norm", "gat", "pyg-GraphSAGE", *["dgl-SAGEConv"] * HAS_DGL)


class Sum(torch.nn.Module):
    """A decoder of a user's in which the ends differ."""

    def forward(self, source, destination):
        return (source * 2 + destination**2).sum(dim=1)


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    return linked_layouts(tmp_path_factory.mktemp("links"), hard=3)


def rule_named(negatives, apart=False):
    given = {**NEGATIVES, **OWN}[negatives]
    return rule_of(negatives=given, corrupt=CORRUPT.get(negatives, "destination"), apart=apart)


def step(member, path, negatives, decoder, loss, model="sage", grid=None, apart=False, **options):
    rule = rule_named(negatives, apart)
    made = LinkStep(member, open_layout(path), rule, decoder=decoder, loss=loss, model=model, grid=grid, **options)
    value, gradients, counted = made.gradients()
    pairs = made.segment.pairs
    return {
        "loss": value,
        "gradients": gradients,
        "counted": counted,
        "messages": made.counters.forward_messages,
        "of_layers": sum(count > 0 for layer in made.segment.layers.values() for count in layer.send_counts),
        "groups": pairs.num_groups - pairs.num_apart,
        "sent": pairs.send_counts,
    }


@functools.cache
def alone(path, *about):
    return step(ALONE, path, *about)


def compare(results, wanted):
    largest = max(gradient.norm().item() for gradient in wanted["gradients"].values())
    for result in results:
        assert result["loss"] == pytest.approx(wanted["loss"], rel=1e-10)
        assert result["counted"] == wanted["counted"]
        assert result["gradients"].keys() == wanted["gradients"].keys()
        for name, gradient in result["gradients"].items():
            size = max(wanted["gradients"][name].norm().item(), 1e-3 * largest)
            assert (gradient - wanted["gradients"][name]).norm().item() <= 1e-10 * size, name
            assert torch.equal(gradient, results[0]["gradients"][name])
    assert sum(result["groups"] for result in results) == wanted["groups"]


@pytest.mark.cases(16)
@pytest.mark.parametrize("negatives", NEGATIVES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("world", [2, 3, 4])
def test_law_2_same_loss_and_gradient_as_one_process(pool, layouts, world, decoder, loss, negatives):
    about = negatives, decoder, loss
    results = pool.run(world, step, layouts(world).path, *about)
    compare(results, alone(layouts(1).path, *about))
    assert any(any(result["sent"]) for result in results)


@pytest.mark.parametrize(("world", "model"), [*zip(itertools.cycle([2, 3, 4]), MODELS, strict=False)])
def test_law_2_for_other_models(pool, layouts, world, model):
    about = "all", "mlp", "softmax", model
    compare(pool.run(world, step, layouts(world).path, *about), alone(layouts(1).path, *about))


@pytest.mark.parametrize("decoder", [*DECODERS, Sum])
@pytest.mark.parametrize("negatives", ["source", "both"])
def test_scores_are_those_of_pairs_one_by_one(layouts, negatives, decoder):
    layout = layouts(1)
    rule = rule_of(negatives=NEGATIVES[negatives], corrupt=CORRUPT[negatives])
    given = rule.plan(layout, batch_size=40, seed=1).pairs(0, 0)[0]
    decoder = OwnDecoder(decoder()) if decoder is Sum else decoder_of(decoder, WIDTH, {})
    h = torch.randn(len(given.targets), WIDTH, dtype=torch.float64)
    made = LinkStep(ALONE, layout, rule)
    assert made.segment.targets.tolist() == given.targets.tolist()
    scores = made.batch.pairs.scores(h, decoder.to(torch.float64))
    shared = given.shared[np.arange(len(given.rows)) // given.chunk]
    sides = [
        np.arange(each.shape[1]) >= each.shape[1] - last
        for each, last in ((given.own, given.own_at_source), (shared, given.shared_at_source))
    ]
    assert not given.turned or not np.concatenate(sides).any()
    for ends in ((given.sources, given.destinations, None), *pairs_of_candidates(given, shared, sides)):
        u, v, column = ends
        if given.turned:
            u, v = v, u
        found = scores.positive if column is None else scores.negative[:, column]
        assert torch.allclose(found, decoder(h[u], h[v]), rtol=1e-12, atol=1e-12)


def pairs_of_candidates(given, shared, sides):
    """Sources and destinations of each column of candidates."""
    for column, (candidate, at_source) in enumerate(
        zip(np.concatenate([given.own, shared], axis=1).T, np.concatenate(sides), strict=True)
    ):
        yield (candidate, given.destinations, column) if at_source else (given.sources, candidate, column)


def at_destination(member, path, negatives, decoder, **options):
    return step(member, path, negatives, decoder, "bce", apart=True, **options)


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize(("negatives", "decoder"), [("own", "mlp"), ("own-source", "mlp"), ("own-both", "mlp")])
def test_law_2_at_destinations(pool, layouts, world, negatives, decoder):
    results = pool.run(world, at_destination, layouts(world).path, negatives, decoder)
    compare(results, alone(layouts(1).path, negatives, decoder, "bce"))
    at_source = pool.run(world, step, layouts(world).path, negatives, decoder, "bce")
    assert np.sum([result["sent"] for result in results]) < np.sum([result["sent"] for result in at_source])


def few(member, path, batch_size, apart):
    return step(member, path, "uniform", "mlp", "bce", batch_size=batch_size, apart=apart)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_law_2_when_trainers_have_no_pairs(pool, layouts, batch_size, apart):
    wanted = few(ALONE, layouts(1).path, batch_size, apart=False)
    results = pool.run(4, few, layouts(4).path, batch_size, apart)
    assert min(result["groups"] for result in results) == 0
    compare(results, wanted)


def in_groups(member, path, grid, apart, micro=None):
    return step(member, path, "uniform", "distmult", "bce", grid=grid, apart=apart, micro=micro)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("groups", [2, 4])
def test_law_2_for_split_groups_and_data(pool, layouts, groups, apart):
    """The sum over all micro-batches, each in one process."""
    results = pool.run(4, in_groups, layouts(4).path, trainer_grid(4, split=4 // groups), apart)
    each = [in_groups(ALONE, layouts(1).path, None, False, (micro, groups)) for micro in range(groups)]
    wanted = {key: sum(found[key] for found in each) for key in ("loss", "groups")}
    wanted["gradients"] = {name: sum(found["gradients"][name] for found in each) for name in each[0]["gradients"]}
    compare(results, {**wanted, "counted": each[0]["counted"]})


@pytest.mark.parametrize(
    ("negatives", "apart"), [("joint", False), ("both", False), ("own", True), ("own-both", True)]
)
def test_law_3_each_row_travels_once_for_the_pairs(pool, layouts, negatives, apart):
    """Rows sent to each trainer equal those that sets find, and each pair of trainers has one message an exchange."""
    layout = layouts(3)
    results = pool.run(3, at_destination if apart else step, layout.path, negatives, "dot", *["bce"] * (not apart))
    wanted = rows_by_sets(layout, rule_named(negatives), apart)
    assert [list(result["sent"]) for result in results] == wanted.tolist()
    of_pairs = (wanted > 0).sum(axis=1)
    assert [result["messages"] - result["of_layers"] for result in results] == of_pairs.tolist()


def rows_by_sets(layout, rule, apart):
    """[P, P] rows that each trainer sends to each for the pairs, from the pairs of one that has all of them."""
    segment = LinkStep(ALONE, layout, rule).segment
    header, targets = segment.pairs, segment.targets
    owner = np.searchsorted(layout.offsets, targets, side="right") - 1
    groups, own = header.num_groups, header.num_own_candidates
    sources = segment._int32(header.sources_at, groups)
    destinations = segment._int32(header.destinations_at, groups)
    ends = [segment._int32(header.own_candidates_at, groups * own).reshape(groups, own)]
    shared = segment._int32(header.shared_candidates_at, header.num_chunks * header.num_shared_candidates)
    ends += [np.repeat(shared.reshape(header.num_chunks, header.num_shared_candidates), segment.chunk_groups, axis=0)]
    candidates, needed = np.concatenate(ends, axis=1), set()
    for i, (source, destination) in enumerate(zip(sources, destinations, strict=True)):
        needed.add((source, owner[destination]) if apart else (destination, owner[source]))
        for k, candidate in enumerate(candidates[i]):
            stays = destination if k >= own - header.own_at_source else source
            if not apart:
                needed.add((candidate, owner[source]))
            elif not segment.masked_candidates[i, k]:
                needed.add((stays, owner[candidate]))
    sent = np.zeros((layout.parts, layout.parts), np.int64)
    for row, to in needed:
        sent[owner[row], to] += owner[row] != to
    return sent


def adjoint(member, path, negatives, apart):
    """<E x, y> and <x, E' y> of the exchange of the pair block, summed over the trainers."""
    made = LinkStep(member, open_layout(path), rule_named(negatives, apart))
    pairs = made.batch.pairs
    generator = torch.Generator().manual_seed(member.rank)
    x = torch.randn(len(made.segment.targets), WIDTH, generator=generator, dtype=torch.float64, requires_grad=True)
    out = pairs.exchange(x)
    y = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    made.batch.comm.tie((out * y).sum()).backward()
    return (out * y).sum().item(), (x * x.grad).sum().item()


@pytest.mark.parametrize("about", [("all", False), ("own-both", True)])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_law_4_the_pair_block_s_backward_mirrors_its_forward(pool, layouts, world, about):
    there, back = np.sum(pool.run(world, adjoint, layouts(world).path, *about), axis=0)
    assert there == pytest.approx(back, rel=1e-12)


def of_the_graph_that_is_seen(member, path, model, loops):
    """The largest differences of targets' vectors from dense layers on the graph without the edges asked for."""
    layout = open_layout(path)
    rule = rule_of((-1, -1), negatives=NEGATIVES["uniform"])
    made = LinkStep(member, layout, rule, model=model, batch_size=400, edge_ids=True)
    graph = layout.graph
    ends = np.stack([graph.indices, np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))])
    rows, ids = made.segment.excluded
    assert (made.segment.targets[rows] == ends[1, ids]).all()
    asked = rule.plan(layout, batch_size=400, seed=1).pairs(0, 0)[0].excluded
    kept = ~np.isin(ends[0] * graph.num_vertices + ends[1], asked.sources * graph.num_vertices + asked.destinations)
    degrees = np.bincount(ends[1, kept], minlength=graph.num_vertices)
    seen = replace(
        graph,
        indptr=np.concatenate([[0], np.cumsum(degrees)]),
        indices=graph.indices[kept],
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[kept],
    )
    config = SimpleNamespace(
        **{"model": "gcn", "fan_out": (-1, -1), "self_loops": loops, "normalization": "both", "norm": "none"},
        **{"feature_dtype": "stored", "normalize_features": False, "input_projection": False, "residual": False},
    )
    dense = Dense(config, made.user_model.state_dict(), seen)
    with torch.no_grad():
        found = made.model(made.batch.blocks, made.batch.x).numpy()
    apart = np.abs(found - dense.levels()[2][made.segment.targets]).max()
    return apart, len(rows), ((degrees == 0) & (np.diff(graph.indptr) > 1)).sum(), int((~kept).sum())


@pytest.mark.parametrize(("model", "loops"), [("gcn", True), ("gcn-no-loops", False), ("weighted-gcn", True)])
@pytest.mark.parametrize("world", [1, 3])
def test_law_7_degrees_are_those_of_the_graph_without_the_edges_asked_for(pool, tmp_path, world, model, loops):
    path = linked_layouts(tmp_path, weighted=model.startswith("weighted"))(world).path
    about = of_the_graph_that_is_seen, path, model, loops
    results = pool.run(world, *about) if world > 1 else [about[0](ALONE, *about[1:])]
    for apart, _, lonely, _ in results:
        assert apart < 1e-12
        assert lonely > 0
    assert sum(own for _, own, _, _ in results) == results[0][3] > 100
