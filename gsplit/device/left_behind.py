"""Files in shared memory that NCCL leaves where a process is killed while GPUs connect, and what removes them.

GSplit's own memory has no name and goes with its processes. Memory through which two GPUs meet has one from when NCCL
makes it until the second has opened it (NCCL, ``src/misc/shmutils.cc``), which is a matter of seconds. So a file that
still has its name after an hour is nobody's.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

from gsplit.host import SHARED_MEMORY

OF_NCCL = "nccl-??????"
"""Names that NCCL gives (mkstemp)."""
ABANDONED_S = 3600.0
"""Age in seconds from which on nobody can be about to open a file."""


def remove_abandoned(folder: Path = SHARED_MEMORY) -> None:
    """Remove the files of this user's that NCCL left in a folder an hour ago or longer."""
    for path in folder.glob(OF_NCCL):
        with contextlib.suppress(OSError):  # another process removes it as well
            status = path.lstat()
            ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid()
            if ours and time.time() - status.st_mtime > ABANDONED_S:
                path.unlink()
