"""Libraries that may be missing, and marks of the tests that need them."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version

import pytest

HAS_DGL = sys.version_info < (3, 12) and not os.environ.get("GSPLIT_TEST_WITHOUT_DGL")
"""DGL 1.1.3, the last release that imports with a current torch, has no wheel for Python 3.12 and later. Where it
should be installed and is not, its tests fail."""
needs_dgl = pytest.mark.skipif(not HAS_DGL, reason="DGL has no wheel for Python 3.12 and later, or was left out")
HAS_VIEWS = int(version("pyarrow").split(".")[0]) >= 21
"""Whether pyarrow writes views of strings into Parquet; 20.0 does not, 21.0 does."""
