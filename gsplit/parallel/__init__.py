"""The trainers of a run: how they join, what they send each other, and what they agree on."""

from gsplit.parallel.collectives import Group
from gsplit.parallel.grid import DATA, SPLIT, Grid, trainer_grid
from gsplit.parallel.join import no_loopback, rendezvous
from gsplit.parallel.member import Member, with_checker, with_mail
from gsplit.parallel.reduce import (
    EarlySums,
    count_over_trainers,
    max_over_trainers,
    reduce_gradients,
    sum_over_trainers,
)

__all__ = [
    "DATA",
    "SPLIT",
    "EarlySums",
    "Grid",
    "Group",
    "Member",
    "count_over_trainers",
    "max_over_trainers",
    "no_loopback",
    "reduce_gradients",
    "rendezvous",
    "sum_over_trainers",
    "trainer_grid",
    "with_checker",
    "with_mail",
]
