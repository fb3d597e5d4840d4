"""Law 5, in the middle of every move of grids: a trainer is killed while the others wait for its part."""

from __future__ import annotations

import functools
import os
import signal
import time

import pytest
from support.commands import LIMIT_S, assert_no_new_shared_memory, children_here
from support.messages import says
from support.runs import config_for

import gsplit
from gsplit import TrainConfig
from gsplit.errors import ProcessDied
from gsplit.full import moves
from gsplit.full.common_rows import CommonRows
from gsplit.parallel.mailboxes import Mailboxes
from gsplit.train.loop import live

VICTIM, CALL = 1, 2
"""The trainer that dies, and in which call of the move."""


def dying(case, note, rank, *arguments, **named_arguments):
    """The life of a trainer; the victim dies in the place of what others wait for in a move."""
    move = case.split()[0]
    owner, collectives = (CommonRows, ["meet"]) if move == "share" else (moves.Moves, MOVES[case][1])
    whole, calls = getattr(owner, move), []

    def die(*_, **__):
        note.write_text(f"{os.getpid()} {time.time()}")
        os.kill(os.getpid(), signal.SIGKILL)

    def until(self, *args, **named):
        calls.append(move)
        if rank == VICTIM and len(calls) == CALL:
            for name in collectives:
                setattr(Mailboxes if owner is CommonRows else moves, name, die)
        return whole(self, *args, **named)

    setattr(owner, move, until)
    return live(rank, *arguments, **named_arguments)


WHOLE = {"strategy": "full", "fan_out": (-1, -1), "batch_size": 512}
GRID, ROTATE = {"model": "sage"}, {"model": "gcn", "algorithm": "rotate"}
SUBGRAPH = {"strategy": "split", "sampling": "uniform", "subgraph": "50%", "num_layers": 2}
SUBGRAPH |= {name: getattr(TrainConfig(), name) for name in ("fan_out", "batch_size")}
MOVES = {
    "to_columns": ({**GRID, "grid": (1, 1, 2)}, ["all_to_all"]),
    "gather": ({**GRID, "algorithm": "3d", "grid": (2, 1, 1)}, ["start_broadcast_pieces"]),
    "reduce_scatter": ({**GRID, "grid": (1, 2, 1)}, ["start_all_to_all"]),
    "to_rows": ({**GRID, "grid": (1, 1, 2)}, ["all_to_all"]),
    "start_pointers": ({**GRID, "grid": (1, 1, 2), "graph": "move"}, ["start_broadcast_pieces"]),
    "start_edges": ({**GRID, "grid": (1, 1, 2), "graph": "move"}, ["start_broadcast_pieces"]),
    "start_all_reduce": ({**ROTATE, "grid": (2, 1, 1)}, ["start_broadcast_pieces"]),  # between its two halves
    "start_all_reduce of subgraphs": ({**SUBGRAPH, **ROTATE, "grid": (2, 1, 1)}, ["start_broadcast_pieces"]),
    "share": ({"algorithm": "shared"}, []),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("case", MOVES)
def test_a_trainer_that_dies_in_a_move_ends_the_run(layout, tmp_path, monkeypatch, case):
    note, before, others = tmp_path / "note", set(os.listdir("/dev/shm")), children_here()
    monkeypatch.setattr("gsplit.train.api.live", functools.partial(dying, case, note))
    config = config_for(layout.path, tmp_path / "run", **{**WHOLE, **MOVES[case][0]})
    with pytest.raises(ProcessDied) as died:
        gsplit.train(config=config)
    pid, at_s = note.read_text().split()
    assert time.time() - float(at_s) < LIMIT_S
    says(str(died.value).strip().splitlines()[-1], f"pid {pid}, SIGKILL")
    assert children_here() <= others
    assert_no_new_shared_memory(before)
