"""Much memory is registered in pieces, one trainer after the other; what is refused on the way leaves nothing."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from support.messages import says

from gsplit.device import accelerator
from gsplit.engine.rows import loading
from gsplit.features import FeatureLoader, HostRows, host_rows
from gsplit.host import SharedBuffer
from gsplit.parallel import rendezvous
from gsplit.parallel.join import joined
from gsplit.processes import start

pytestmark = pytest.mark.accelerator
PIECE = 1 << 16
ROWS, WIDTH = 1000, 100
"""400,000 bytes: seven pieces, the last one short."""


@pytest.fixture
def buffer():
    buffer = SharedBuffer("test")
    buffer.grow(ROWS * WIDTH * 4)
    yield buffer
    buffer.close()


def rows_of(buffer):
    values = buffer.view((ROWS, WIDTH), np.float32)
    values[:] = np.arange(ROWS)[:, None]
    return HostRows(values)


def test_rows_are_registered_in_pieces_and_read_across_them(controls, device, buffer, monkeypatch):
    monkeypatch.setattr(host_rows, "REGISTERED_BYTES", PIECE)
    pieces, register = [], accelerator.register
    monkeypatch.setattr(accelerator, "register", lambda x, flags=0: pieces.append(x.nbytes) or register(x, flags))
    before, rows = controls.registered_bytes(), rows_of(buffer)
    loader = FeatureLoader(rows, device=device, dtype=torch.float32, normalize=False, threads=1, zero_copy=True)
    assert pieces == [PIECE] * 6 + [ROWS * WIDTH * 4 - 6 * PIECE]
    assert controls.registered_bytes() == before + ROWS * WIDTH * 4
    ids = np.array([999, 163, 164, 0])  # a row lies across the first two pieces
    assert torch.equal(loader.load(ids).cpu(), torch.from_numpy(ids).float()[:, None].expand(4, WIDTH))
    del loader, rows
    assert controls.registered_bytes() == before


def registers(rank, world, port, buffer, piece):
    """When this trainer registered each piece; bytes that are registered then; whether rows are read by a kernel."""
    times, register = [], accelerator.register

    def timed(memory, flags=0):
        begin_s = time.monotonic()
        code = register(memory, flags)
        times.append((begin_s, time.monotonic()))
        return code

    accelerator.register, host_rows.REGISTERED_BYTES, loading.TOLD_BYTES = timed, piece, 1
    with joined(rank, world, port, "sim", threads=1) as member:
        rows = rows_of(buffer)
        loading.register_in_turn(rows, member)
        return times, int(torch.ops.sim.registered_bytes()), rows.pin()


def together(world, buffer):
    with rendezvous(world) as port:
        return start(registers, world, world, port, buffer, PIECE).join()


def test_trainers_take_turns_and_tell_what_they_do(controls, buffer, monkeypatch, capfd):
    monkeypatch.setenv("GSPLIT_SIM_REGISTERING", "2")  # MB a second: 0.2 s each
    (first, taken, _), (second, _, _) = together(2, buffer)
    assert len(first) == len(second) == 7
    assert taken == ROWS * WIDTH * 4
    assert first[-1][1] <= second[0][0]
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "registering 390.6 KiB of feature rows with the driver, one trainer after the other"
    assert lines[1].startswith("registered after 0.")
    assert len(lines) == 2  # trainer 0's alone


def test_a_refusal_in_the_middle_takes_the_pieces_before_it_back(controls, buffer, monkeypatch, capfd):
    monkeypatch.setenv("GSPLIT_SIM_FAULT", f"registering:{3 * PIECE}")
    ((times, taken, pinned),) = together(1, buffer)
    assert len(times) == 4
    assert (taken, pinned) == (0, False)
    said = capfd.readouterr()
    says(said.err, "400000, error 304")
    assert said.out.splitlines()[-1].startswith("refused after 0.")
