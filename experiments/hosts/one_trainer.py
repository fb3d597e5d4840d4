"""One trainer of a baseline, or DistDGL's server of a host: what is started on each of several hosts.

    RANK=0 python -m experiments.hosts.one_trainer FOLDER

``FOLDER``, which all hosts see, is as in :mod:`experiments.baselines.data_parallel`. With ``DGL_ROLE=server`` it is
the server.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from experiments.baselines.data_parallel import Make, train
from experiments.baselines.workload import Order


def main(folder: Path) -> None:
    make: Make | None = None
    if Order.read(folder).system == "distdgl":
        from experiments.hosts import distdgl

        distdgl.connect()
        make = distdgl.make
    train(int(os.environ["RANK"]), folder, make)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
