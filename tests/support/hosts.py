"""Trainers that are started one by one, as torchrun and srun do: several hosts, on the loopback of this one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.forked import Popen

SCRIPT = """
import json, sys
import gsplit

if __name__ == "__main__":
    for at, config in enumerate(json.load(open(sys.argv[1]))):
        summary = gsplit.train(config=gsplit.TrainConfig(**config))
        json.dump(summary, open(f"{sys.argv[2]}-{at}", "w"))
"""
"""What each trainer runs: one training after the other, by ``gsplit.train``."""


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def places(hosts: int, here: int) -> list[dict[str, str]]:
    """The environments of all trainers, by rank."""
    common = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    return [
        common
        | {"WORLD_SIZE": str(hosts * here), "LOCAL_WORLD_SIZE": str(here), "RANK": str(rank)}
        | {"LOCAL_RANK": str(rank % here), "GROUP_RANK": str(rank // here)}
        for rank in range(hosts * here)
    ]


def train_placed(folder: Path, hosts: int, here: int, configs: Sequence[dict]) -> list[list[dict]]:
    """Train by a script that each trainer runs; the summaries of each configuration, by rank."""
    folder.mkdir(parents=True)
    (folder / "script.py").write_text(SCRIPT)
    (folder / "configs.json").write_text(json.dumps(configs, default=str))
    trainers = [
        Popen(
            [sys.executable, str(folder / "script.py"), str(folder / "configs.json"), str(folder / f"rank-{rank}")],
            env=place,
            stdin=subprocess.DEVNULL,
            stdout=(folder / f"out-{rank}").open("w"),
            stderr=subprocess.STDOUT,
        )
        for rank, place in enumerate(places(hosts, here))
    ]
    codes = [trainer.wait(300) for trainer in trainers]
    assert not any(codes), "\n".join((folder / f"out-{rank}").read_text() for rank in range(len(codes)))
    return [
        [json.loads((folder / f"rank-{rank}-{at}").read_text()) for rank in range(len(codes))]
        for at in range(len(configs))
    ]
