"""Processes, process groups, shared memory and the reduction of gradients."""

from gsplit.parallel.group import Worker, rendezvous, split_group, with_board
from gsplit.parallel.processes import Child, ProcessDied, start
from gsplit.parallel.reduce import max_over_trainers, reduce_gradients, sum_over_trainers
from gsplit.parallel.scripts import check_script, finds_main

__all__ = [
    "Child", "ProcessDied", "Worker", "check_script", "finds_main", "max_over_trainers", "reduce_gradients",
    "rendezvous", "split_group", "start", "sum_over_trainers", "with_board",
]  # fmt: skip
