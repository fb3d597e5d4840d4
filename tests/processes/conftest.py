"""Fixtures of the tests with several trainers."""

from __future__ import annotations

import pytest


@pytest.fixture
def here(in_pool):
    """Trainers of runs and of predictions are the pool's."""
    with in_pool():
        yield
