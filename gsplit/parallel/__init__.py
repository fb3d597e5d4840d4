"""Processes, process groups, shared memory and the reduction of gradients."""

from gsplit.parallel.group import Worker, rendezvous
from gsplit.parallel.processes import NAME, Child, ProcessDied, start
from gsplit.parallel.reduce import reduce_gradients, sum_over_trainers
from gsplit.parallel.shared import SharedBuffer

__all__ = [
    "NAME",
    "Child", "ProcessDied", "SharedBuffer", "Worker", "reduce_gradients", "rendezvous", "start", "sum_over_trainers",
]  # fmt: skip
