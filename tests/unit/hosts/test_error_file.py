"""A mistake that torchrun would have made again is seen by the start that follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsplit.hosts import Place
from gsplit.hosts.error_file import mistake_before, write_error_file


def place_at(folder, restarts):
    file = folder / f"attempt_{restarts}" / "1" / "error.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    return Place(rank=1, world=2, local=1, here=2, address="h", port=1, restarts=restarts, error_file=str(file))


@pytest.mark.parametrize("mistake", [True, False])
def test_the_next_start_sees_it(tmp_path, mistake):
    assert mistake_before(place_at(tmp_path, 0)) is None
    write_error_file(place_at(tmp_path, 0), "--epochs is wrong", mistake=mistake)
    assert mistake_before(place_at(tmp_path, 1)) == ("--epochs is wrong" if mistake else None)
    assert mistake_before(place_at(tmp_path, 2)) is None


def test_what_others_wrote_is_none(tmp_path):
    before = place_at(tmp_path, 0)
    for text in ("", "[1]", '{"message": {"message": "x", "extraInfo": {"timestamp": 1}}}'):
        Path(before.error_file).write_text(text)
        assert mistake_before(place_at(tmp_path, 1)) is None
