"""Of several children that failed, the one is named that made the others fail."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest
from support.messages import says

from gsplit.errors import InputError
from gsplit.processes.child import Child, Report, cause


def failed(rank, kind=None, time_s=0.0, exitcode=1):
    """A child that reported, or without a kind one that ended without a word."""
    report = None if kind is None else Report(kind, f"said by {rank}", time_s)
    return Child(rank, SimpleNamespace(exitcode=exitcode, pid=70 + rank), None, report)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_earliest_report_counts(first):
    found = cause([failed(rank, "error", time_s=5.0 + (rank != first)) for rank in range(3)])
    assert str(found) == f"trainer {first} failed:\nsaid by {first}"


@pytest.mark.parametrize("first", [0, 1])
def test_a_mistake_of_the_user_s_counts_where_it_is_the_earliest(first):
    found = cause([failed(first, "input", 5.0), failed(1 - first, "error", 6.0)])
    assert isinstance(found, InputError)
    assert str(found) == f"said by {first}"


@pytest.mark.parametrize("killed", [0, 1])
def test_a_death_by_signal_comes_before_every_report(killed):
    children = {1 - killed: failed(1 - killed, "error"), killed: failed(killed, exitcode=-signal.SIGKILL)}
    found = cause([children[0], children[1]])
    says(found, f"trainer {killed}, pid {70 + killed}, SIGKILL")


@pytest.mark.parametrize("aborted", [0, 1])
def test_an_abort_comes_after_every_report(aborted):
    """With SIGABRT a communication library ends a process whose peer has failed before."""
    children = {1 - aborted: failed(1 - aborted, "error"), aborted: failed(aborted, exitcode=-signal.SIGABRT)}
    assert str(cause([children[0], children[1]])).startswith(f"trainer {1 - aborted} failed")
