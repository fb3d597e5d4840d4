"""Processes and signals: where children are started, watched and ended. Imports no torch."""

from gsplit.processes.children import Child, ProcessDied, start
from gsplit.processes.environment import environment
from gsplit.processes.scripts import check_script, finds_main

__all__ = ["Child", "ProcessDied", "check_script", "environment", "finds_main", "start"]
