"""The trainers of a run: how they join, what they send each other, and what they agree on."""

from gsplit.parallel.join import Member, rendezvous, split_group, with_board
from gsplit.parallel.reduce import max_over_trainers, reduce_gradients, sum_over_trainers

__all__ = [
    "Member",
    "max_over_trainers",
    "reduce_gradients",
    "rendezvous",
    "split_group",
    "sum_over_trainers",
    "with_board",
]
