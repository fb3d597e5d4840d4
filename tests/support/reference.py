"""A slow sampler-and-splitter, written from docs/architecture.md and docs/formats.md, not from the C++ code.

Plain Python integers, dictionaries and sets; nothing is shared with the package.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MASK = 0xFFFFFFFFFFFFFFFF
WEYL = 0x9E3779B97F4A7C15


def scramble(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def unscramble(z: int) -> int:
    """The number that ``scramble`` makes ``z`` of."""

    def unshift(z: int, bits: int) -> int:
        x = z
        for _ in range(64 // bits):
            x = z ^ (x >> bits)
        return x

    z = (unshift(z, 31) * pow(0x94D049BB133111EB, -1, 1 << 64)) & MASK
    z = (unshift(z, 27) * pow(0xBF58476D1CE4E5B9, -1, 1 << 64)) & MASK
    return unshift(z, 30)


def key_of(words: list[int]) -> int:
    key = 0
    for word in words:
        key = scramble(((key ^ word) + WEYL) & MASK)
    return key


def uniform_numbers(seed: int):
    """32-bit numbers: word i is scramble(seed + i * WEYL), i = 1, 2, ...; low half, then high half."""
    i = 0
    while True:
        i += 1
        word = scramble((seed + i * WEYL) & MASK)
        yield word & 0xFFFFFFFF
        yield word >> 32


def id_with_word(hop_key: int, i: int, word: int) -> int:
    """The global id, from 0 to below 2**64, of a vertex whose word i (1, 2, ...) is ``word``."""
    stream = (unscramble(word) - i * WEYL) & MASK
    return ((unscramble(stream) - WEYL) & MASK) ^ key_of([hop_key])


def draw_below(numbers, n: int) -> int:
    """Lemire's method: reject while the low half of the product is below 2**32 mod n."""
    while True:
        product = next(numbers) * n
        if (product & 0xFFFFFFFF) >= (1 << 32) % n:
            return product >> 32


def draw_positions(degree: int, fan_out: int, hop_key: int, global_id: int) -> list[int]:
    if fan_out == -1 or degree <= fan_out:
        return list(range(degree))
    numbers = uniform_numbers(key_of([hop_key, global_id]))
    chosen: dict[int, None] = {}  # in the order in which they were chosen
    for last in range(degree - fan_out, degree):
        t = draw_below(numbers, last + 1)
        chosen[last if t in chosen else t] = None
    return list(chosen)


@dataclass
class ReferenceSplit:
    vertices: list[int] = field(default_factory=list)
    level_sizes: list[int] = field(default_factory=list)
    edges: dict[int, list[list[int]]] = field(default_factory=dict)
    """layer -> for each destination row, the source vertices drawn, as layout ids"""
    edge_ids: dict[int, list[int]] = field(default_factory=dict)
    received: dict[int, list[list[int]]] = field(default_factory=dict)
    """layer -> [P] vertices needed from each trainer, by first appearance; by id in the order of its rows"""
    scales: dict[int, dict[int, float]] = field(default_factory=dict)
    """layer -> what an edge counts, by its source; vertices that were not drawn are not in it"""

    def source_rows(self, layer: int) -> list[int]:
        """The block's indices: own rows first, then what came from 0, 1, ..."""
        own = {v: row for row, v in enumerate(self.vertices[: self.level_sizes[layer - 1]])}
        foreign = {}
        for vertices in self.received[layer]:
            for v in vertices:
                foreign[v] = len(own) + len(foreign)
        return [own.get(v, foreign.get(v, -1)) for row in self.edges[layer] for v in row]


def sample_and_split(
    graph,
    offsets,
    targets,
    fan_outs,
    *,
    seed,
    epoch,
    batch,
    micro=0,
    global_ids=None,
    by_id=False,
    excluded=frozenset(),
):
    """The splits of one mini-batch of neighbour sampling; ``graph`` has ``indptr`` and ``indices``.

    excluded: pairs (source, destination) whose edges are not drawn; draws count the others alone.
    """
    indptr, indices = graph.indptr.tolist(), graph.indices.tolist()

    def choose(hop, destinations):
        hop_key = key_of([seed, epoch, batch, micro, hop])
        places = {}
        for v in destinations:
            left = [i for i, u in enumerate(indices[indptr[v] : indptr[v + 1]]) if (u, v) not in excluded]
            name = v if global_ids is None else int(global_ids[v])
            places[v] = [left[j] for j in draw_positions(len(left), fan_outs[hop - 1], hop_key, name)]
        return places, {}

    return split_by(graph, offsets, targets, len(fan_outs), choose, by_id=by_id)


def splits_of(layout, targets, fan_outs, *, offsets=None, seed, epoch=0, batch=0, micro=0):
    """The same of a layout, split by its parts or by other ``offsets``; targets are layout ids."""
    return sample_and_split(
        layout.graph,
        [int(offset) for offset in (layout.offsets if offsets is None else offsets)],
        [int(target) for target in targets],
        fan_outs,
        global_ids=layout.permutation,
        **{"seed": seed, "epoch": epoch, "batch": batch, "micro": micro},
    )


def split_by(graph, offsets, targets, layers, choose, others=(), by_id=False):
    """The splits of one mini-batch, by any rule.

    ``choose(hop, destinations)`` gives the places of the in-edges that each destination keeps, and the scales of
    their sources; ``others`` are in all levels but that of the targets. ``by_id``: what a hop meets is sorted.
    """
    indptr, indices = graph.indptr.tolist(), graph.indices.tolist()
    parts = len(offsets) - 1

    def owner(v):
        return next(p for p in range(parts) if offsets[p] <= v < offsets[p + 1])

    splits = [ReferenceSplit(level_sizes=[0] * (layers + 1)) for _ in range(parts)]
    for v in targets:
        splits[owner(v)].vertices.append(int(v))
    for split in splits:
        split.level_sizes[layers] = len(split.vertices)
    for v in others:
        splits[owner(v)].vertices.append(int(v))
    for hop in range(1, layers + 1):
        layer = layers - hop + 1
        places, scales = choose(hop, [v for split in splits for v in split.vertices[: split.level_sizes[layer]]])
        known = [set(split.vertices) for split in splits]
        met = [{} for _ in splits]
        for p, split in enumerate(splits):
            split.edges[layer], split.edge_ids[layer] = [], []
            split.received[layer], split.scales[layer] = [[] for _ in range(parts)], scales
            for v in split.vertices[: split.level_sizes[layer]]:
                positions = [indptr[v] + i for i in places[v]]
                drawn = [indices[at] for at in positions]
                split.edges[layer].append(drawn)
                split.edge_ids[layer] += positions
                for u in drawn:
                    q = owner(u)
                    if u not in known[q]:
                        met[q][u] = None
                    if q != p and u not in split.received[layer][q]:
                        split.received[layer][q].append(u)
        for split, vertices in zip(splits, met, strict=True):
            split.vertices += sorted(vertices) if by_id else vertices
            split.level_sizes[layer - 1] = len(split.vertices)
        rows = {v: row for split in splits for row, v in enumerate(split.vertices)}
        for split in splits if by_id else ():
            split.received[layer] = [sorted(needed, key=rows.get) for needed in split.received[layer]]
    return splits
