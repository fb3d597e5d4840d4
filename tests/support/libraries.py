"""Libraries that may be missing, and marks of the tests that need them."""

from __future__ import annotations

import importlib.util

import pytest

HAS_DGL = importlib.util.find_spec("dgl") is not None
"""DGL 1.1.3, the last release that imports with a current torch, has no wheel for Python 3.12 and later."""
needs_dgl = pytest.mark.skipif(not HAS_DGL, reason="DGL is not installed; it has no wheel for Python 3.12 and later")
