"""Draws of vertices with many neighbours, each equal to the slow reference: every path of the core draws here.

The core chooses in registers up to 64 and up to 128 neighbours, with a bitmap in memory, or, above 512 neighbours and
up to a fan-out of 48, by scanning what was chosen before. It draws early where the neighbours are longer than 512
bytes: more than 64 of 8 bytes, more than 128 of 4.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.reference import MASK, draw_positions, id_with_word, key_of, scramble, uniform_numbers, unscramble

from gsplit.sampling import MiniBatchSampler

DEGREES = [
    *(*range(63, 67), 100, *range(126, 131), *range(191, 194), 255, 256, 257, *range(299, 303)),
    *(319, 320, 321, 384, 400, *range(447, 450), *range(510, 515), 550, *range(574, 578), *range(638, 642)),
    *(700, 704, *range(766, 770), 1000, *range(1022, 1026), 2047, 2048, 2049, 4095, 4096, 4097),
    *(10_000, 65_535, 65_536, 65_537, 69_999, 70_000),
]
COPIES = {66: 100, 130: 100}
"""Vertices of a degree, where it is not 3: registers that are too short for it are seldom noticed."""
FAN_OUTS = [1, 2, 3, 7, 20, 47, 48, 49, 50, 63, 64, 65, 100, 127, 128, 129, 200, 255, 256, 299, 300]
NUM_VERTICES = 100_000  # most of them without neighbours
KEY = {"epoch": 3, "batch": 5, "micro": 2}
SEED = 11
HOP_KEY = key_of([SEED, *KEY.values(), 1])


def sampled(indptr, indices, targets, fan_out, global_ids, *, edge_ids=True, **how):
    """The segment of one hop."""
    sampler = MiniBatchSampler(
        indptr,
        indices,
        [0, len(indptr) - 1],
        fan_outs=[fan_out],
        seed=SEED,
        global_ids=global_ids,
        edge_ids=edge_ids,
        **how,
    )
    assert sampler.sample(targets, **KEY)
    return sampler.segment(0)


@pytest.fixture(scope="module")
def skewed():
    """indptr, indices, targets and global ids of a graph with vertices of all degrees, in any order.

    The order matters: a bitmap that is too short shows what a vertex with more neighbours left behind.
    """
    random = np.random.default_rng(0)
    drawn = np.repeat(DEGREES, [COPIES.get(degree, 3) for degree in DEGREES])
    targets = np.sort(random.choice(NUM_VERTICES, len(drawn), replace=False))
    degrees = np.zeros(NUM_VERTICES, np.int64)
    degrees[targets] = random.permutation(drawn)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    indices = random.integers(0, NUM_VERTICES, indptr[-1])
    return indptr, indices, random.permutation(targets), random.permutation(NUM_VERTICES)


@pytest.fixture(scope="module")
def wanted(skewed):
    """fan-out -> where the edges drawn stand in ``indices``, by target and draw."""
    indptr, _, targets, global_ids = skewed

    def positions(fan_out):
        for v in targets:
            drawn = draw_positions(int(indptr[v + 1] - indptr[v]), fan_out, HOP_KEY, int(global_ids[v]))
            yield indptr[v] + np.array(drawn)

    return {fan_out: np.concatenate(list(positions(fan_out))) for fan_out in FAN_OUTS}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("memory", [None, 0])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("edge_ids", [True, False])
def test_every_path_equals_the_reference_exactly(skewed, wanted, edge_ids, index_dtype, memory, threads):
    indptr, indices, targets, global_ids = skewed
    how = {"edge_ids": edge_ids, "memory": memory, "threads": threads}
    narrow = indices.astype(index_dtype)
    for fan_out in FAN_OUTS:
        segment = sampled(indptr, narrow, targets, fan_out, global_ids, **how)
        counts = np.minimum(indptr[targets + 1] - indptr[targets], fan_out)
        np.testing.assert_array_equal(np.diff(segment.indptr(1)), counts)
        np.testing.assert_array_equal(segment.vertices[segment.indices(1)], indices[wanted[fan_out]])
        if edge_ids:
            np.testing.assert_array_equal(segment.edge_ids(1), wanted[fan_out])


def vertices_that_reject(degree, fan_out):
    """Global ids of vertices at the border of a rejection, and how many 32-bit numbers each of them rejects.

    Of a draw below n, a number is rejected where the low half of its product with n is below 2**32 mod n. For odd n
    there is a number for every low half, and a vertex whose stream has it at a given place.
    """
    cases = []
    for i in sorted({*range(4), fan_out // 2, fan_out // 2 + 1, *range(fan_out - 3, fan_out)} & {*range(fan_out)}):
        n = degree - fan_out + i + 1
        least = 2**32 % n  # the smallest low half that is taken
        if n % 2 == 0 or least == 0:
            continue
        numbers = {low: low * pow(n, -1, 2**32) % 2**32 for low in (0, least - 1, least, n - 1)}
        assert all(number * n % 2**32 == low for low, number in numbers.items())
        places = [(i, [number], int(low < least)) for low, number in numbers.items()]
        if i % 2 == 0:  # both halves of a word for this draw
            places.append((i, [numbers[0], numbers[least - 1]], 2))
        for place, given, rejected in places:
            low_half, high_half = [0xDEADBEEF, *given] if place % 2 else [*given, 0xDEADBEEF][:2]
            global_id = id_with_word(HOP_KEY, place // 2 + 1, high_half << 32 | low_half)
            stream = uniform_numbers(key_of([HOP_KEY, global_id]))
            assert [next(stream) for _ in range(place + len(given))][place:] == given
            cases.append((global_id, rejected))
    return cases


@pytest.mark.parametrize(
    ("degree", "fan_out"),
    [
        (5, 3),
        (50, 7),
        (50, 8),
        (63, 62),
        (64, 9),
        (64, 63),
        (65, 20),
        (65, 21),
        (127, 20),
        (128, 50),
        (128, 127),
        (129, 20),
        (129, 21),
        (300, 30),
        (512, 49),
        (512, 100),
        (513, 48),
        (1000, 5),
        (4097, 20),
        (70_000, 48),
        (513, 49),
        (4095, 100),
        (70_000, 49),
        (70_000, 300),
    ],
)
def test_a_rejected_number_is_drawn_again(degree, fan_out):
    cases = vertices_that_reject(degree, fan_out)
    assert {rejected for _, rejected in cases} >= {0, 1}
    n = len(cases)
    global_ids = np.array([global_id for global_id, _ in cases], np.uint64).view(np.int64)
    indptr = np.arange(0, degree * n + 1, degree)
    segment = sampled(indptr, np.arange(degree * n, dtype=np.int32) % n, np.arange(n), fan_out, global_ids)
    drawn = segment.edge_ids(1).reshape(n, fan_out) - indptr[:-1, None]
    for row, (global_id, _) in zip(drawn.tolist(), cases, strict=True):
        assert row == draw_positions(degree, fan_out, HOP_KEY, global_id)


def test_unscramble_undoes_scramble():
    for z in (0, 1, 2**63, MASK, 0x123456789ABCDEF0):
        assert unscramble(scramble(z)) == z == scramble(unscramble(z))
