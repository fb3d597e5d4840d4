"""Processes, process groups, shared memory and the reduction of gradients."""

from gsplit.parallel.group import Worker, rendezvous, split_group, with_board
from gsplit.parallel.processes import Child, ProcessDied, refuse_in_trainer, start
from gsplit.parallel.reduce import max_over_trainers, reduce_gradients, sum_over_trainers

__all__ = [
    "Child", "ProcessDied", "Worker", "max_over_trainers", "reduce_gradients", "refuse_in_trainer",
    "rendezvous", "split_group", "start", "sum_over_trainers", "with_board",
]  # fmt: skip
