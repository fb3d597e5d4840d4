"""How trainers agree to stop, in the sum of their gradients."""

from __future__ import annotations

from functools import partial

import torch

from gsplit.parallel.vote import StopVote


def test_all_stop_after_the_same_mini_batch():
    asked = [False, False]
    votes = [StopVote(partial(asked.__getitem__, rank), late=0) for rank in range(2)]

    def mini_batch():
        total = sum(vote.own(torch.zeros(1, dtype=torch.float64)) for vote in votes)
        for vote in votes:
            vote.note(total)
        return [vote.stops() for vote in votes]

    assert mini_batch() == [False, False]
    asked[1] = True
    assert mini_batch() == [True, True]


def test_a_sum_may_be_read_late():
    vote = StopVote(lambda: False, late=2)
    stops = []
    for total in (0.0, 1.0, 1.0, 1.0):
        vote.note(torch.tensor([total]))
        stops.append(vote.stops())
    assert stops == [False, False, False, True]
    assert vote.own(torch.zeros(2, dtype=torch.bfloat16)).dtype == torch.bfloat16
