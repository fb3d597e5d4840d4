"""Processes and signals: where child processes are started, watched and ended. Imports no torch."""

from gsplit.processes.child import Child
from gsplit.processes.children import start
from gsplit.processes.environment import environment
from gsplit.processes.scripts import check_no_trainer, check_script, finds_main

__all__ = ["Child", "check_no_trainer", "check_script", "environment", "finds_main", "start"]
