"""Laws 2 to 4 for pairs, with 2, 3 and 4 trainers."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import torch
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
CORRUPT = {"source": "source", "both": "both"}
DECODERS = ("dot", "cosine", "distmult", "mlp")
LOSSES = ("bce", "softmax", "bpr", "margin")
MODELS = ("sage", "gcn-batch-norm", "gat", "pyg-SAGEConv")


class Sum(torch.nn.Module):
    """A decoder of a user's in which the ends differ."""

    def forward(self, source, destination):
        return (source * 2 + destination**2).sum(dim=1)


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    return linked_layouts(tmp_path_factory.mktemp("links"), hard=3)


def step(member, path, negatives, decoder, loss, model="sage", grid=None, **options):
    rule = rule_of(negatives=NEGATIVES[negatives], corrupt=CORRUPT.get(negatives, "destination"))
    made = LinkStep(member, open_layout(path), rule, decoder=decoder, loss=loss, model=model, grid=grid, **options)
    value, gradients, counted = made.gradients()
    pairs = made.segment.pairs
    return {
        "loss": value,
        "gradients": gradients,
        "counted": counted,
        "messages": made.counters.forward_messages + made.counters.backward_messages,
        "bytes": made.counters.forward_bytes,
        "groups": pairs.num_groups,
        "sent": sum(pairs.send_counts),
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
    assert any(result["sent"] for result in results)


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


def few(member, path, batch_size):
    return step(member, path, "uniform", "mlp", "bce", batch_size=batch_size)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_law_2_when_trainers_have_no_pairs(pool, layouts, batch_size):
    wanted = few(ALONE, layouts(1).path, batch_size)
    results = pool.run(4, few, layouts(4).path, batch_size)
    assert min(result["groups"] for result in results) == 0
    compare(results, wanted)


def in_groups(member, path, grid):
    return step(member, path, "uniform", "distmult", "bpr", grid=grid)


@pytest.mark.parametrize("groups", [2, 4])
def test_law_2_for_split_groups_and_data(pool, layouts, groups):
    """All pairs are scored once, and all trainers have the same gradient."""
    results = pool.run(4, in_groups, layouts(4).path, trainer_grid(4, split=4 // groups))
    assert sum(result["groups"] for result in results) == alone(layouts(1).path, "uniform", "dot", "bce")["groups"]
    for result in results:
        assert result["loss"] == results[0]["loss"]
        assert all(torch.equal(g, results[0]["gradients"][name]) for name, g in result["gradients"].items())


@pytest.mark.parametrize("negatives", ["joint", "both"])
def test_law_3_each_row_travels_once_for_the_pairs(pool, layouts, negatives):
    """Rows sent equal those that sets find, and each pair of trainers has at most one message an exchange."""
    layout = layouts(3)
    results = pool.run(3, step, layout.path, negatives, "dot", "bce")
    layers = 2
    assert all(result["messages"] <= 2 * 2 * (layers + 1) for result in results)
    sent = rows_by_sets(
        layout, rule_of(negatives=NEGATIVES[negatives], corrupt=CORRUPT.get(negatives, "destination"))
    )
    assert [result["sent"] for result in results] == sent


def rows_by_sets(layout, rule):
    """Rows that each trainer sends for the pairs, from the pairs of one that has all of them."""
    segment = LinkStep(ALONE, layout, rule).segment
    header, targets = segment.pairs, segment.targets
    owner = np.searchsorted(layout.offsets, targets, side="right") - 1
    groups, own = header.num_groups, header.num_own_candidates
    sources = segment._int32(header.sources_at, groups)
    ends = [segment._int32(header.destinations_at, groups)[:, None]]
    ends += [segment._int32(header.own_candidates_at, groups * own).reshape(groups, own)]
    shared = segment._int32(header.shared_candidates_at, header.num_chunks * header.num_shared_candidates)
    ends += [np.repeat(shared.reshape(header.num_chunks, header.num_shared_candidates), segment.chunk_groups, axis=0)]
    needed = {
        (int(owner[source]), int(end))
        for source, row in zip(sources, np.concatenate(ends, axis=1), strict=True)
        for end in row
        if owner[source] != owner[end]
    }
    return [sum(owner[end] == rank for _, end in needed) for rank in range(layout.parts)]


def adjoint(member, path):
    """<E x, y> and <x, E' y> of the exchange of the pair block, summed over the trainers."""
    made = LinkStep(member, open_layout(path), rule_of(negatives=NEGATIVES["all"]))
    pairs = made.batch.pairs
    generator = torch.Generator().manual_seed(member.rank)
    x = torch.randn(len(made.segment.targets), WIDTH, generator=generator, dtype=torch.float64, requires_grad=True)
    out = pairs.exchange(x)
    y = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    made.batch.comm.tie((out * y).sum()).backward()
    return (out * y).sum().item(), (x * x.grad).sum().item()


@pytest.mark.parametrize("world", [2, 3, 4])
def test_law_4_the_pair_block_s_backward_mirrors_its_forward(pool, layouts, world):
    there, back = np.sum(pool.run(world, adjoint, layouts(world).path), axis=0)
    assert there == pytest.approx(back, rel=1e-12)
