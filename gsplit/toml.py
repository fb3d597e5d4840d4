"""Python's reader of TOML, ``from gsplit.toml import tomllib``; before 3.11 a package is in its place."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
