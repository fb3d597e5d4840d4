"""What tests with several trainers compute in this process, they compute with one thread, as each trainer does."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def here(in_pool):
    """Trainers of runs and of predictions are the pool's."""
    with in_pool():
        yield
