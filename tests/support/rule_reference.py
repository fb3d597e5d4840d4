"""Slow references of the sampling rules beside neighbour sampling, written from docs/formats.md, "The draws".

Plain Python integers and Fractions; nothing is shared with the package.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np

from support.reference import MASK, WEYL, key_of, scramble, split_by

DARTS, SETS = 0x44415254, 0x53455453


def in_edges(graph, v):
    return list(range(int(graph.indptr[v]), int(graph.indptr[v + 1])))


def rounded(x: Fraction) -> int:
    """To the nearest whole number, halves upwards."""
    return math.floor(x + Fraction(1, 2))


def edge_masses(graph, v, unit, weighted):
    """The mass that each in-edge of v gives its source, by place."""
    places = in_edges(graph, v)
    if not weighted and places:
        return [max(1, rounded(Fraction(unit, len(places) ** 2)))] * len(places)
    weights = [float(graph.edge_weight[e]) for e in places]
    total = 0.0
    for weight in weights:
        total += weight
    shares = [weight / total if total > 0 else 0.0 for weight in weights]
    return [max(1, round(p * p * unit)) if p > 0 else 0 for p in shares]


def pool_masses(graph, destinations, importance, weighted):
    masses = Counter()
    for v in destinations:
        sources = [int(graph.indices[e]) for e in in_edges(graph, v)]
        each = [1] * len(sources) if importance == "counts" else edge_masses(graph, v, 1 << 40, weighted)
        for u, mass in zip(sources, each, strict=True):
            masses[u] += mass
    return {u: of_sum(mass, importance, 20) for u, mass in masses.items()}


def of_sum(mass, importance, root_bits):
    """What a sum over out-edges is as a mass."""
    if importance == "norms":
        return round(math.sqrt(float(mass)) * 2**root_bits)
    return mass**2 if importance == "counts" else mass


def uniform(hop_key, global_id):
    """In (0, 1]: the first word of the vertex's stream."""
    word = scramble((key_of([hop_key, global_id]) + WEYL) & MASK)
    return ((word >> 11) + 1) / 2**53


def raced(masses, names, size, hop_key, draw):
    """The winners of a race, each with its scale; and the time of the first that loses."""
    if len(masses) <= size:
        return dict.fromkeys(masses, 1.0), math.inf

    def time(u):
        if masses[u] == 0:
            return math.inf
        number = uniform(hop_key, names[u])
        return (number if draw == "priority" else -math.log(number)) / masses[u]

    order = sorted(masses, key=lambda u: (time(u), names[u]))
    tau = time(order[size])

    def scale(u):
        if masses[u] == 0 or math.isinf(tau):
            return 1.0
        chance = min(1.0, masses[u] * tau) if draw == "priority" else -math.expm1(-masses[u] * tau)
        return float(np.float32(1 / chance))

    return {u: scale(u) for u in order[:size]}, tau


def kept_from(graph, destinations, scales):
    """Places of the in-edges whose sources have a scale, for each destination."""
    indices, indptr = graph.indices.tolist(), graph.indptr.tolist()
    return {v: [e - indptr[v] for e in in_edges(graph, v) if indices[e] in scales] for v in destinations}


def ladies(graph, offsets, targets, sizes, *, importance, draw, weighted, global_ids, seed, epoch, batch, micro):
    def choose(hop, destinations):
        masses = pool_masses(graph, destinations, importance, weighted)
        names = {u: int(global_ids[u]) for u in masses}
        scales, _ = raced(masses, names, sizes[hop - 1], key_of([seed, epoch, batch, micro, hop]), draw)
        return kept_from(graph, destinations, scales), scales

    return split_by(graph, offsets, targets, len(sizes), choose)


def below(key, bound, count):
    """Hashes of 0, 1, ..., of as many bits as the bound has; those at it or above are left out."""
    bits = (bound - 1).bit_length()
    numbers, i = [], 0
    while len(numbers) < count:
        number = scramble(((key ^ i) + WEYL) & MASK) % 2**bits
        numbers += [number] if number < bound else []
        i += 1
    return numbers


def all_masses(graph, importance, weighted, own=False):
    n = len(graph.indptr) - 1
    bits = min(40, 62 - n.bit_length())
    masses = [0] * n
    for v in range(n):
        places = in_edges(graph, v)
        each = [1] * len(places) if importance == "counts" else edge_masses(graph, v, 1 << bits, weighted)
        for e, mass in zip(places, each, strict=True):
            masses[int(graph.indices[e])] += mass
        if own:
            masses[v] += 1 if importance == "counts" else max(1, rounded(Fraction(1 << bits, (len(places) + 1) ** 2)))
    root_bits = min(20, 62 - n.bit_length() - math.ceil(bits / 2))
    return [of_sum(mass, importance, root_bits) for mass in masses]


def fastgcn(graph, offsets, targets, sizes, *, importance, weighted, global_ids, seed, epoch, batch, micro):
    masses = all_masses(graph, importance, weighted)
    by_name = np.argsort(global_ids).tolist()
    total = sum(masses)

    def choose(hop, destinations):
        hits = Counter()
        for number in below(key_of([seed, epoch, batch, micro, hop, DARTS]), total, sizes[hop - 1]):
            end = 0
            for u in by_name:
                end += masses[u]
                if number < end:
                    hits[u] += 1
                    break
        scales = {u: float(np.float32(h / (sizes[hop - 1] * (masses[u] / total)))) for u, h in hits.items()}
        return kept_from(graph, destinations, scales), scales

    return split_by(graph, offsets, targets, len(sizes), choose)


def fresh(graph, offsets, targets, layers, size, scale, *, global_ids, seed, epoch, batch, micro):
    """Of each hop the first numbers that differ, in turns; or, of more than a half, those that are left out."""
    n = len(global_ids)

    def choose(hop, destinations):
        key, drawn, turn = key_of([seed, epoch, batch, micro, hop, SETS]), set(), 0
        while missing := min(size, n - size) - len(drawn):
            drawn.update(below(key_of([key, turn]), n, missing))
            turn += 1
        kept = drawn if 2 * size <= n else set(range(n)) - drawn
        scales = {v: float(np.float32(scale)) for v in range(n) if int(global_ids[v]) in kept}
        return kept_from(graph, destinations, scales), scales

    return split_by(graph, offsets, targets, layers, choose)


def shuffled_sets(global_ids, pieces, *, seed, epoch):
    """The sets of an epoch: runs of all vertices in the order of their hashes, layout ids ascending in each."""
    key = key_of([seed, epoch, SETS])
    order = sorted(range(len(global_ids)), key=lambda v: scramble(((key ^ int(global_ids[v])) + WEYL) & MASK))
    bounds = [len(order) * i // pieces for i in range(pieces + 1)]
    return [sorted(order[a:b]) for a, b in pairwise(bounds)]


def saint_sets(graph, global_ids, darts, importance, number, *, seed, epoch, batch):
    """The sets of a mini-batch, and the scale of each vertex wherever it is."""
    masses, by_name = all_masses(graph, importance, weighted=False, own=True), np.argsort(global_ids).tolist()
    total = sum(masses)
    sets = []
    for micro in range(number):
        key, at, i, hit = key_of([seed, epoch, batch, micro, SETS]), 0.0, 0, set()
        while at < total:
            u = ((scramble(((key ^ i) + WEYL) & MASK) >> 11) + 1) / 2**53
            at += float(-np.log(np.full(16, u))[0]) * (float(total) / darts)  # of many at a time, as it may round
            end, i = 0, i + 1
            for v in by_name if at < total else []:
                end += masses[v]
                if int(at) < end:
                    hit.add(v)
                    break
        sets.append(sorted(hit))
    return sets, {v: float(np.float32(1 / -np.expm1(-darts * (masses[v] / total)))) for v in by_name}


def subgraph(graph, offsets, targets, others, layers, scale):
    """``scale``: of all, or of each vertex."""
    of = scale.get if isinstance(scale, dict) else lambda _: float(np.float32(scale))
    inside = {int(v): of(int(v)) for v in [*targets, *others]}
    return split_by(
        graph, offsets, targets, layers, lambda _, rows: (kept_from(graph, rows, inside), inside), others=others
    )
