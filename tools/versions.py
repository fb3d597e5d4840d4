"""``make lowest`` and ``make newest``: a wheel of GSplit with every dependency at its lower bound, or at its newest.

Each has a fresh environment in ``work/lowest`` or ``work/newest``, with the bounds of pyproject.toml and its extras,
but DGL's. There the wheel is built, installed and used: README's commands, and then the suite from a copy of the tree
without the package, so that the wheel is what is tested. Logs lie beside the environment.

PyTorch comes from the index as it is: gigabytes for GPUs on PyPI. ``UV_TORCH_BACKEND=cpu`` takes builds for the CPU.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.requirements import PROJECT, requirements

ROOT = PROJECT.parent
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
"""How uv chooses versions, by the name of the target."""
EXTRAS = ("pyg", "tables", "database", "matrices", "plots", "metrics", "kaminpar", "graphbolt")
TESTING = [
    "pytest",
    "pytest-xdist",
    "pytest-random-order",
    "hypothesis",
    "pandas>=2",
    "brotli",
    "nanobind",
    "nbformat",
]
"""What the suite needs beside them, in whatever version fits."""
SUITE = {
    "unit tests": ("tests/unit",),
    "examples and the API": ("tests/cli/test_examples.py", "tests/processes/test_from_memory.py"),
    "models of PyG": ("tests/processes/test_custom_model.py", "tests/processes/test_check_model.py"),
    "the whole graph": ("tests/processes/test_whole_training.py", "tests/processes/test_rotation.py"),
    "resume and signals": ("tests/faults/test_resume.py", "tests/faults/test_signals.py"),
    "deaths and waits": ("tests/faults/test_deaths.py", "tests/faults/test_slow_trainers.py"),
    "mistakes": ("tests/cli/test_bad_input.py", "tests/cli/test_doctor.py"),
}
"""Files of tests, by what is said of them."""
PAGES = ("README.md", "docs/guides/commands.md")
"""Pages whose first commands are run, word for word."""
WITHOUT_DGL = "GSPLIT_TEST_WITHOUT_DGL"
"""Variable by which tests know that DGL is left out on purpose (tests/support/libraries.py)."""
MARKS = "not accelerator and not slow and not left_out and not sources"


@dataclass(frozen=True)
class Place:
    """An environment, and where things are made with it."""

    folder: Path
    """Has the environment, the wheel, the copied tree and the logs."""

    @property
    def bin(self) -> Path:
        """Folder of its programs."""
        return self.folder / "venv" / "bin"

    def run(self, log: str, *command: object, cwd: Path | None = None) -> int:
        """Run a command, by the environment's programs first; returns its exit code. What it says goes to a log."""
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(self.folder / "venv"), WITHOUT_DGL: "1"}
        with open(self.folder / f"{log.replace(' ', '-')}.log", "a") as file:
            print("$", *command, file=file, flush=True)
            return subprocess.run(
                [str(word) for word in command],
                cwd=cwd or self.folder,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode


def uv() -> str:
    """The program of that name beside this Python, or in the PATH."""
    found = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        raise SystemExit("error: uv is missing: pip install uv")
    return found


def install(place: Place, resolution: str, python: str) -> str | None:
    """Build the wheel, and install it with what README's line names; None, or what did not work."""
    pins, dist = place.folder / "pins.txt", place.folder / "dist"
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    steps = (
        ("venv", "--quiet", "--python", python, place.folder / "venv"),
        ("build", "--quiet", "--wheel", "--python", python, "--out-dir", dist, ROOT),
        # Wheels alone: a version that has none for this Python is none of those that can be promised for it.
        ("pip", "compile", "--quiet", "--only-binary", ":all:", "--resolution", resolution, *extras,
         "--python", place.bin / "python", "--output-file", pins, PROJECT),
    )  # fmt: skip
    if wrong := uv_runs(place, steps):
        return wrong
    (wheel,) = dist.glob("*.whl")
    ours = f"gsplit[{extras_of_readme()}] @ {wheel.as_uri()}"
    return uv_runs(place, [("pip", "install", "--quiet", "--constraint", pins, ours)])


def install_rest(place: Place) -> str | None:
    """Install the other extras and what the suite needs."""
    pins = place.folder / "pins.txt"
    return uv_runs(place, [("pip", "install", "--quiet", "--requirement", pins, "--constraint", pins, *TESTING)])


def uv_runs(place: Place, steps: Iterable[Sequence[object]]) -> str | None:
    """Call uv, step by step; None, or which one did not work."""
    for step in steps:
        if code := place.run("install", uv(), *step):
            return f"uv {' '.join(map(str, step[:2]))}: exit code {code}"
    return None


def extras_of_readme() -> str:
    """The extras that README's line of installation names."""
    found = re.search(r"^pip install '\.\[([\w,]+)\]'", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert found is not None, "README has no line that installs GSplit with extras"
    return found[1]


def commands_of(page: str) -> list[str]:
    """The commands of a page's first block, without the installation."""
    block = re.search(r"```\n(?:pip install '.*?\n)?(gsplit .*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert block is not None, f"{page} has no block of commands"
    return [line.partition("#")[0].strip() for line in block[1].splitlines() if line.startswith("gsplit ")]


def use(place: Place) -> str | None:
    """The commands of README and of the guide, word for word, on a generated graph under the name that they use."""
    make = ("gsplit import synthetic:small --out small", "gsplit export small --to npz --out cora.npz")
    for page in PAGES:
        folder = place.folder / "used" / Path(page).stem
        folder.mkdir(parents=True)
        for command in (*make, *commands_of(page)):
            if code := place.run("README", "bash", "-c", command, cwd=folder):
                return f"{command}: exit code {code}"
    return None


def copy_of_the_tree(place: Place) -> Path:
    """The tracked files without the package, which is that of the wheel."""
    tree = place.folder / "tree"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.split("\0"):
        if name and not name.startswith("gsplit/") and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    return tree


def tests(place: Place, tree: Path, name: str) -> str | None:
    """Run some of the suite; None, or its last line."""
    options = ("-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", "--tb", "short", "-m", MARKS)
    code = place.run(name, place.bin / "python", "-m", "pytest", *options, *SUITE[name], cwd=tree)
    return (place.folder / f"{name.replace(' ', '-')}.log").read_text().splitlines()[-1] if code else None


def versions(place: Place) -> str:
    """What was chosen of what pyproject.toml names itself."""
    names = {re.split(r"[^\w-]", line)[0].lower().replace("_", "-") for line in requirements(*EXTRAS)}
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", (place.folder / "pins.txt").read_text(), re.MULTILINE))
    return ", ".join(f"{name} {pinned[name]}" for name in sorted(names) if name in pinned)


def main() -> None:
    """Try one of the two; exit code 1 where something did not work."""
    parser = argparse.ArgumentParser(prog="python -m tools.versions", description=__doc__.partition("\n")[0])
    parser.add_argument("which", choices=RESOLUTIONS)
    parser.add_argument("--python", default=getattr(sys, "_base_executable", sys.executable), help="the interpreter")
    asked = parser.parse_args()
    place = Place(ROOT / "work" / asked.which)
    shutil.rmtree(place.folder, ignore_errors=True)
    place.folder.mkdir(parents=True)
    failed = []

    def tell(name: str, began_s: float, wrong: str | None) -> None:
        print(f"{name}: {'FAILED: ' + wrong if wrong else 'works'} ({time.monotonic() - began_s:.0f} s)", flush=True)
        failed.extend([name] if wrong else [])

    began_s = time.monotonic()
    tell("the wheel", began_s, install(place, RESOLUTIONS[asked.which], asked.python))
    if not failed:
        print(versions(place), flush=True)
        began_s = time.monotonic()
        tell("README's commands", began_s, use(place))
        began_s = time.monotonic()
        tell("the other extras", began_s, install_rest(place))
        tree = copy_of_the_tree(place)
        for name in SUITE:
            began_s = time.monotonic()
            tell(name, began_s, tests(place, tree, name))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; logs are in {place.folder}")


if __name__ == "__main__":
    main()
