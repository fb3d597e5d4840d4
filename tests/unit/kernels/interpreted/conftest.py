"""Tests of Triton's kernels in its interpreter, which has to be chosen before Triton is imported.

So they are collected in a process with TRITON_INTERPRET=1 alone; ``test_interpreter.py`` beside this folder has one.
"""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["test_*.py"]
