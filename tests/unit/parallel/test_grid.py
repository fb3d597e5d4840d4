"""Grids: ranks and coordinates are each other's inverse, groups deal out the ranks, wrong names are told."""

from __future__ import annotations

import itertools
import math

import pytest
from support.messages import line_with

from gsplit.parallel import Grid, trainer_grid

AXES = ("r", "k", "f")


def factorisations(world, axes):
    """All sizes of that many axes whose product is ``world``."""
    return [sizes for sizes in itertools.product(range(1, world + 1), repeat=axes) if math.prod(sizes) == world]


GRIDS = [
    Grid(AXES[:axes], sizes)
    for axes in range(1, len(AXES) + 1)
    for world in (1, 2, 3, 4, 6, 8, 12)
    for sizes in factorisations(world, axes)
]


def test_ranks_go_by_coordinates_the_last_axis_fastest():
    for grid in GRIDS:
        places = itertools.product(*map(range, grid.sizes))
        for rank, place in enumerate(places):
            coordinates = dict(zip(grid.axes, place, strict=True))
            assert grid.coordinates(rank) == coordinates
            assert grid.rank(**coordinates) == rank
            assert all(grid.coordinate(rank, axis) == at for axis, at in coordinates.items())
        assert rank + 1 == grid.world


def test_groups_along_any_axes_deal_out_the_ranks():
    for grid in GRIDS:
        for axes in itertools.chain.from_iterable(
            itertools.combinations(grid.axes, n) for n in range(len(grid.axes) + 1)
        ):
            groups = grid.groups(*axes)
            assert sorted(itertools.chain(*groups)) == list(range(grid.world))
            assert {len(group) for group in groups} == {grid.size(*axes)}
            others = [axis for axis in grid.axes if axis not in axes]
            for group in groups:
                assert list(group) == sorted(group)
                assert len({tuple(grid.coordinate(rank, axis) for axis in others) for rank in group}) == 1
                assert all(grid.group(rank, *axes) == group for rank in group)


def test_trainers_of_a_split_group_have_consecutive_ranks():
    grid = trainer_grid(6, 3)
    assert (grid.size("data"), grid.size("split"), grid.world) == (2, 3, 6)
    assert grid.groups("split") == [(0, 1, 2), (3, 4, 5)]
    assert grid.groups("data") == [(0, 3), (1, 4), (2, 5)]
    assert [tuple(grid.coordinates(r).values()) for r in range(6)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert trainer_grid(4) == Grid.of(data=1, split=4)


@pytest.mark.parametrize("size", [0, 3, 5])
def test_groups_must_divide_the_trainers(size):
    with pytest.raises(ValueError, match=line_with(f"groups of {size}, 4 trainers")):
        trainer_grid(4, size)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda grid: grid.size("rows"), "data 2 x split 3, rows"),
        (lambda grid: grid.group(0, "rows"), "rows"),
        (lambda grid: grid.coordinate(0, "rows"), "rows"),
        (lambda grid: grid.rank(data=0, split=0, rows=0), "rows"),
        (lambda grid: grid.rank(data=0), "{'data': 0}"),
        (lambda grid: grid.rank(data=0, split=3), "{'data': 0, 'split': 3}"),
        (lambda grid: grid.rank(data=-1, split=0), "{'data': -1, 'split': 0}"),
        (lambda grid: grid.coordinates(6), "data 2 x split 3, 6"),
        (lambda grid: grid.group(-1, "split"), "-1"),
        (lambda grid: Grid.of(data=0), "data 0"),
        (lambda grid: Grid(("data", "data"), (2, 3)), "axis"),
        (lambda grid: Grid(("data",), (2, 3)), "axis"),
    ],
)
def test_what_a_grid_does_not_have_is_told(call, said):
    with pytest.raises(ValueError, match=line_with(said)):
        call(Grid.of(data=2, split=3))
