"""What GSplit needs of others, a line each, as pip reads it: ``python -m tools.requirements dev pyg``.

pip cannot install what a package needs without building the package, and building it takes as long as all the rest.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.toml import tomllib

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def requirements(*extras: str) -> list[str]:
    """Requirements of the package itself, then of its extras, as pyproject.toml has them."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    return [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]


if __name__ == "__main__":
    print("\n".join(requirements(*sys.argv[1:])))
