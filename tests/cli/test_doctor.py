"""``gsplit doctor`` as a user types it: exit code 0 or 2, one line that says what is wrong, nothing written."""

from __future__ import annotations

import json

import pytest
from support.commands import python


def test_all_is_well(place, gsplit_script):
    """A process of its own, as pip's script starts it."""
    words = ["doctor", "layout", "--device", "cpu", "--fan-out", "3,3", "--json"]
    done = python(gsplit_script, *words)
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert found["training"]["step"]["mini_batch"] > 0


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("layout", "--cache-size", "900TiB", "--device", "cpu"), "--cache-size 900.0 TiB: cpu has"),
        (("layout", "--device", "xpu"), "--device xpu, but PyTorch finds no GPU of that kind; use --device cpu"),
        (("--gpus", "100000"), "--gpus is 100000, but there are"),
        (("missing",), "missing"),
        (("layout", "--fan-out", "0"), "--fan-out takes numbers from 1 on"),
        (("--resume", "run"), "--resume run: doctor takes a LAYOUT"),
    ],
)
def test_what_is_wrong_is_one_line(refused, words, printed):
    assert printed in refused("doctor", *words)
