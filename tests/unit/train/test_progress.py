"""Where a run stands, as tickets need to know it."""

from __future__ import annotations

import pytest
import torch

from gsplit.supply.tickets import Position
from gsplit.train.progress import Progress


@pytest.mark.parametrize(
    ("done", "position"),
    [
        (set(), Position(epoch=2)),
        ({0, 1, 2}, Position(epoch=2, batch=3, ahead=[])),
        ({0, 2, 3}, Position(epoch=2, batch=3, ahead=[2, 3])),
        ({5}, Position(epoch=2, batch=1, ahead=[5])),
    ],
)
def test_position_tells_what_was_done_ahead(done, position):
    progress = Progress(epoch=2, done=done)
    assert (progress.position().epoch, progress.position().batch) == (2, len(done))
    assert list(progress.position().ahead) == list(position.ahead)
    restored = Progress.from_state(progress.state(), torch.device("cpu"))
    assert restored.done == done
