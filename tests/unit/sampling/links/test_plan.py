"""Which pairs are in which mini-batch, and what they are compared with, against sets and loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.links import linked_graph, linked_layouts, micro_batches, rule_of

from gsplit.sampling.links import Exclude, Negatives, TrainingPairs

KINDS = {
    "uniform": Negatives(uniform=3),
    "joint": Negatives(joint=7),
    "in-batch": Negatives(in_batch=True),
    "hard": Negatives(hard=2),
    "near": Negatives(near=3),
    "all": Negatives(uniform=3, joint=4, chunk=9, in_batch=True, hard=1, near=2),
    "by degree": Negatives(uniform=3, degree_share=0.5),
}


@pytest.fixture(scope="module", params=[False, True], ids=["edges", "given"])
def layouts(request, tmp_path_factory):
    return linked_layouts(tmp_path_factory.mktemp("links"), given=request.param, hard=3)


def known_to(segment, others, layout):
    """Global ids of the targets whose vectors a split has, its own and those received."""
    received = []
    for other in others:
        counts = np.concatenate([[0], np.cumsum(other.pairs.send_counts)])
        sent = other._int32(other.pairs.send_rows_at, counts[-1])[counts[segment.rank] : counts[segment.rank + 1]]
        assert len(set(sent)) == len(sent)  # each row once
        assert len(sent) == segment.pairs.receive_counts[other.rank]
        received.append(other.targets[sent])
    return layout.permutation[np.concatenate([segment.targets, *received])]


def decoded(segment, others, layout):
    """Groups of a split as global ids: {row: (source, destination, candidates with their masks)}."""
    header, vertices, known = segment.pairs, segment.targets, known_to(segment, others, layout)
    groups, own, shared = header.num_groups, header.num_own_candidates, header.num_shared_candidates
    sources = segment._int32(header.sources_at, groups)
    assert (sources < len(vertices)).all()  # scored by the owner of the source
    destinations = known[segment._int32(header.destinations_at, groups)]
    candidates = known[segment._int32(header.own_candidates_at, groups * own)].reshape(groups, own)
    of_chunks = segment._int32(header.shared_candidates_at, header.num_chunks * shared).reshape(
        header.num_chunks, shared
    )
    assert segment.chunk_groups.sum() == groups
    assert (segment.chunk_groups > 0).all()  # nothing is sent for chunks of others
    shared_ = known[np.repeat(of_chunks, segment.chunk_groups, axis=0)]
    masked = segment.masked_candidates
    used = set(known[len(vertices) :])
    if groups:
        assert used <= {*destinations, *candidates.ravel(), *shared_.ravel()}  # nothing is sent for nothing
    else:
        assert not used
    return {
        int(row): (
            int(known[sources[i]]),
            int(destinations[i]),
            [*map(int, candidates[i]), *map(int, shared_[i])],
            masked[i].tolist(),
        )
        for i, row in enumerate(segment.pair_rows)
    }


def pairs_of(layout, rule, batch, epoch=0, **options):
    """The union of the splits of a mini-batch."""
    batches = micro_batches(layout, rule, **options)
    sampler = batches.sample(epoch, batch, 0)
    segments = [sampler.segment(rank) for rank in range(layout.parts)]
    found: dict = {}
    for segment in segments:
        segment.validate()
        own = decoded(segment, segments, layout)
        assert not found.keys() & own.keys()
        found |= own
        assert segment.pairs.groups_of_all == sum(each.pairs.num_groups for each in segments)
    negatives = sum(len(masked) - sum(masked) for *_, masked in found.values())
    assert all(segment.pairs.negatives_of_all == negatives for segment in segments)
    return found


def counting(candidates, masked):
    """Candidates that are not masked."""
    return [candidate for candidate, is_masked in zip(candidates, masked, strict=True) if not is_masked]


@pytest.mark.parametrize("corrupt", ["destination", "both"])
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_and_candidates_are_the_same_for_any_number_of_splits(layouts, kind, corrupt):
    rule = rule_of(negatives=KINDS[kind], corrupt=corrupt)
    wanted = pairs_of(layouts(1), rule, 1)
    assert len(wanted) > 30
    for parts in (2, 3, 5):
        found = pairs_of(layouts(parts), rule, 1)
        assert found.keys() == wanted.keys()
        for row, (source, destination, candidates, masked) in found.items():
            assert (source, destination) == wanted[row][:2]
            kept = [
                [c for c, m in zip(*each, strict=True) if not m] for each in ((candidates, masked), wanted[row][2:])
            ]
            assert kept[0] == kept[1]


@pytest.mark.parametrize("kind", ["uniform", "hard", "by degree"])
def test_pairs_and_candidates_are_scored_at_their_destinations(layouts, kind):
    check_destinations(layouts, kind)


def test_known_candidates_are_scored_nowhere(tmp_path):
    """In a graph where most vertices are known to each other, some candidates stay known."""
    assert check_destinations(linked_layouts(tmp_path, n=60, mean_degree=90), "uniform") > 0


def check_destinations(layouts, kind):
    """Returns how many candidates are left out."""
    groups = pairs_of(layouts(1), rule_of(negatives=KINDS[kind]), 1)
    wanted = [(row, source, end, False) for row, (source, end, *_) in groups.items()]
    wanted += [(row, source, end, True) for row, (source, _, *ends) in groups.items() for end in counting(*ends)]
    for parts in (1, 2, 3, 5):
        layout, found, left_out = layouts(parts), [], 0
        sampler = micro_batches(layout, rule_of(negatives=KINDS[kind], apart=True)).sample(0, 1, 0)
        segments = [sampler.segment(rank) for rank in range(parts)]
        for segment in segments:
            header, known, rows = segment.pairs, known_to(segment, segments, layout), segment.pair_rows.tolist()
            sources, ends = (segment._int32(at, len(rows)) for at in (header.sources_at, header.destinations_at))
            assert (ends < len(segment.targets)).all()
            assert set(known[len(segment.targets) :]) <= set(known[sources])  # nothing is sent for nothing
            alone = np.arange(len(rows)) >= len(rows) - header.num_apart
            found += zip(rows, known[sources].tolist(), known[ends].tolist(), alone.tolist(), strict=True)
            left_out += header.num_left_out
        assert sorted(found) == sorted(wanted)
        assert left_out == sum(sum(masked) for *_, masked in groups.values())
        assert all(segment.pairs.groups_of_all == len(groups) for segment in segments)
        assert all(segment.pairs.negatives_of_all == len(wanted) - len(groups) for segment in segments)
    return left_out


def test_an_epoch_has_every_pair_once_and_no_loop(layouts):
    layout, rule = layouts(2), rule_of()
    pairs, links = TrainingPairs(layout), layout.graph.links
    batches = micro_batches(layout, rule)
    seen: dict[int, tuple[int, int]] = {}
    for batch in range(batches.plan.num_batches):
        found = pairs_of(layout, rule, batch)
        assert not seen.keys() & found.keys()
        seen |= {row: group[:2] for row, group in found.items()}
    indptr = layout.store_indptr
    if links.train is None:  # row i is edge i of the store
        graph = linked_graph(hard=3)
        listed = [*zip(graph.indices.tolist(), np.repeat(np.arange(120), np.diff(indptr)).tolist(), strict=True)]
    else:
        listed = [(source, destination) for source, destination in links.train.tolist()]
    wanted = {row: pair for row, pair in enumerate(listed) if pair[0] != pair[1]}
    assert seen == wanted
    assert pairs.number == (len(layout.graph.indices) if links.train is None else len(links.train))


def known_links(layout, links):
    """Pairs that training knows, as global ids."""
    graph, ids = layout.graph, layout.permutation
    destinations = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    known = set(zip(ids[graph.indices].tolist(), ids[destinations].tolist(), strict=True))
    return known | ({*map(tuple, links.train.tolist())} if links.train is not None else set())


def at_source(negatives, groups, corrupt):
    """Whether each candidate of a pair takes the place of the source."""
    if corrupt != "both":
        return [corrupt == "source"] * 1000
    halved = negatives.uniform, negatives.near
    own = [False] * (negatives.hard + sum(-(-number // 2) for number in halved))
    own += [True] * sum(number // 2 for number in halved)
    of_all = groups if negatives.in_batch else 0
    return own + [False] * (-(-negatives.joint // 2) + of_all) + [True] * (negatives.joint // 2 + of_all)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("corrupt", ["destination", "source", "both"])
def test_no_candidate_is_known(layouts, kind, corrupt):
    layout = layouts(3)
    known = known_links(layout, layout.graph.links)
    masks = []
    groups = pairs_of(layout, rule_of(negatives=KINDS[kind], corrupt=corrupt), 0)
    sides = at_source(KINDS[kind], len(groups), corrupt)
    for source, destination, candidates, masked in groups.values():
        if corrupt == "source":  # such pairs are turned round
            source, destination = destination, source
        assert (source, destination) in known
        for candidate, is_masked, turned in zip(candidates, masked, sides, strict=corrupt == "both"):
            pair = (candidate, destination) if turned else (source, candidate)
            assert is_masked == (candidate in (source, destination) or pair in known)
            masks.append(is_masked)
    assert not all(masks)
    if kind == "in-batch":
        assert any(masks)  # at least its own destination


def test_hard_candidates_are_of_the_pair_itself(layouts):
    layout = layouts(2)
    hard = layout.graph.links.hard_negatives
    groups = pairs_of(layout, rule_of(negatives=Negatives(hard=2)), 0)
    of_the_pair = [
        len(set(candidates) & set(hard[row].tolist())) / 2 for row, (_, _, candidates, _) in groups.items()
    ]
    assert np.mean(of_the_pair) > 0.8  # but for what is known or missing


def test_walks_end_uniformly_two_steps_away(layouts):
    """Against the chances of all walks from a vertex, multi-edges counted, but for what is known."""
    layout = layouts(2)
    plan = rule_of(negatives=Negatives(near=8)).plan(layout, batch_size=40, seed=3)
    graph, known = layout.graph, known_links(layout, layout.graph.links)
    step = np.zeros((120, 120))
    np.add.at(step, (np.repeat(np.arange(120), np.diff(graph.indptr)), graph.indices), 1)
    step /= np.maximum(1, step.sum(axis=1, keepdims=True))
    source = int(np.argmax(np.diff(graph.indptr)))
    destination, number = (source + 7) % 120, 4000
    ids = layout.permutation
    may = [c not in (source, destination) and (ids[source], ids[c]) not in known for c in range(120)]
    chances = (step @ step)[source] * may
    assert (chances > 0).sum() > 15
    drawn = plan._draws.of(
        np.arange(number), np.full(number, source), np.full(number, destination), epoch=0, batch=0, micro=0
    )
    ends = drawn.own[~drawn.masked]
    assert len(ends) > 0.9 * 8 * number
    wanted = chances / chances.sum() * len(ends)
    counts = np.bincount(ends, minlength=120)
    assert not counts[wanted == 0].any()
    some = wanted > 0
    square, freedom = ((counts - wanted)[some] ** 2 / wanted[some]).sum(), some.sum() - 1
    assert abs(square - freedom) < 4 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_that_are_held_out_change_nothing(layouts, kind):
    layout, none = layouts(2), np.empty((0, 2), np.int64)
    links = replace(layout.graph.links, valid=none, test=none)
    without = replace(layout, graph=replace(layout.graph, links=links))
    rule = rule_of(negatives=KINDS[kind], corrupt="both")
    given, held_out = (rule.plan(each, batch_size=40, seed=1).pairs(0, 1)[0] for each in (without, layout))
    for field in ("targets", "own", "shared", "masked"):
        assert (getattr(given, field) == getattr(held_out, field)).all()


@pytest.mark.parametrize("corrupt_source", [False, True])
def test_candidates_of_pairs_are_such_ends_of_theirs(layouts, corrupt_source):
    layout = layouts(3)
    pairs = TrainingPairs(layout)
    ends = {*layout.permutation[pairs.ends(np.arange(pairs.number))[0 if corrupt_source else 1]].tolist()}
    assert len(ends) < 120 or corrupt_source
    negatives = Negatives(uniform=6, joint=9, of_pairs=True, known=True)
    rule = rule_of(negatives=negatives, corrupt="source" if corrupt_source else "destination")
    drawn = {vertex for group in pairs_of(layout, rule, 0).values() for vertex in group[2]}
    assert drawn <= ends
    assert len(drawn) > 0.8 * len(ends)


def test_candidates_by_degree_follow_the_destinations(layouts):
    layout = layouts(1)
    degrees = np.zeros(120)
    links = layout.graph.links
    pairs = TrainingPairs(layout)
    _, destinations = pairs.ends(np.arange(pairs.number))
    np.add.at(degrees, layout.permutation[destinations], 1)
    drawn = {share: [] for share in (0.0, 1.0)}
    for share in drawn:
        negatives = Negatives(uniform=20, degree_share=share, known=True)
        for group in pairs_of(layout, rule_of(negatives=negatives), 0).values():
            drawn[share] += group[2]
    mean = {share: degrees[each].mean() for share, each in drawn.items()}
    wanted = (degrees**2).sum() / degrees.sum()
    assert mean[1.0] == pytest.approx(wanted, rel=0.25), links
    assert mean[0.0] == pytest.approx(degrees.mean(), rel=0.25)


@pytest.mark.parametrize("parts", [1, 3])
def test_candidates_say_how_often_they_are_expected(layouts, parts):
    layout = layouts(parts)
    pairs = TrainingPairs(layout)
    degrees = np.zeros(120)
    np.add.at(degrees, layout.permutation[pairs.ends(np.arange(pairs.number))[1]], 1)
    negatives = Negatives(uniform=2, joint=5, chunk=12, in_batch=True, degree_share=0.4, log_q=True)
    sampler = micro_batches(layout, rule_of(negatives=negatives)).sample(0, 0, 0)
    segments = [sampler.segment(rank) for rank in range(parts)]
    groups = segments[0].pairs.groups_of_all
    expected = 7 * (0.6 / 120 + 0.4 * degrees / pairs.number) + groups * degrees / pairs.number
    for segment in segments:
        found = decoded(segment, segments, layout)
        own, shared = segment.log_q
        shared = np.repeat(shared, segment.chunk_groups, axis=0)
        for row, (_, _, candidates, _) in zip(segment.pair_rows, found.values(), strict=True):
            at = list(found).index(row)
            values = np.concatenate([own[at], shared[at]])
            assert values == pytest.approx(np.log(expected[candidates]), rel=1e-5)


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_law_7_no_mini_batch_sees_what_it_asks(layouts, parts):
    layout = layouts(parts)
    rule = rule_of(fan_out=(-1, -1))
    for batch in range(3):
        batches = micro_batches(layout, rule)
        sampler = batches.sample(0, batch, 0)
        segments = [sampler.segment(rank) for rank in range(parts)]
        asked = {pair for group in pairs_of(layout, rule, batch).values() for pair in (group[:2], group[1::-1])}
        seen = edges_of(segments, layout)
        assert len(seen) > 100
        assert not seen & asked
        open_ = micro_batches(layout, rule_of(fan_out=(-1, -1), exclude=Exclude(targets=False))).sample(0, batch, 0)
        assert edges_of([open_.segment(rank) for rank in range(parts)], layout) & asked


def edges_of(segments, layout):
    """All edges of the blocks of a mini-batch, as global ids."""
    edges = set()
    for segment in segments:
        for layer, header in segment.layers.items():
            received = [other.vertices[other.send_rows(layer)[segment.rank]] for other in segments]
            sources = np.concatenate([segment.vertices[: header.num_own_sources], *received])
            destinations = np.repeat(np.arange(header.num_destinations), np.diff(segment.indptr(layer)))
            ids = layout.permutation
            pairs = ids[sources[segment.indices(layer)]], ids[segment.vertices[destinations]]
            edges |= set(zip(*(ends.tolist() for ends in pairs), strict=True))
    return edges


def test_an_edge_is_excluded_only_below_a_degree(layouts):
    layout = layouts(2)
    in_degrees = np.empty(120, np.int64)
    in_degrees[layout.permutation] = np.diff(layout.graph.indptr)
    rule = rule_of(fan_out=(-1, -1), exclude=Exclude(below=3))
    sampler = micro_batches(layout, rule).sample(0, 0, 0)
    seen = edges_of([sampler.segment(rank) for rank in range(2)], layout)
    asked = {pair for group in pairs_of(layout, rule, 0).values() for pair in (group[:2], group[1::-1])}
    few = {pair for pair in asked if min(in_degrees[list(pair)]) < 3}
    assert few
    assert not seen & few
    if layout.graph.links.train is None:  # others are hardly ever edges
        assert seen & (asked - few)


@pytest.mark.parametrize("micro", [2, 3])
def test_micro_batches_have_the_pairs_of_the_mini_batch(layouts, micro):
    layout = layouts(3)
    rule = rule_of(negatives=Negatives(uniform=2, hard=1))
    whole = pairs_of(layout, rule, 2)
    batches = micro_batches(layout, rule, micro=micro, splits=1)
    found: dict = {}
    for sampler in batches.sample_all(0, 2):
        segment = sampler.segment(0)
        found |= decoded(segment, [segment], layout)
        assert segment.pairs.groups_of_all == len(whole)
    assert found == whole
