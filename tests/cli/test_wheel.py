"""A wheel is built, repaired and used where there is no compiler."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tools.wheels import build_wheel

COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "cmake", "ninja")


@pytest.mark.slow
@pytest.mark.sources
def test_a_wheel_trains_without_a_compiler(tmp_path):
    """In a fresh environment, with the dependencies of this one; make lowest and make newest install others."""
    wheel = build_wheel(sys.executable, tmp_path)
    assert "manylinux" in wheel.name
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin" / "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    packages = next((venv / "lib").glob("python*/site-packages"))
    # A path alone: files that install this tree for editing are not read there.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    path = str(venv / "bin")
    assert not [name for name in COMPILERS if shutil.which(name, path=path)]

    def run(*words):
        done = subprocess.run(
            [venv / "bin" / words[0], *words[1:]],
            cwd=tmp_path,
            env={"PATH": path, "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = run("python", "-c", "import gsplit; print(gsplit.__file__)")
    assert Path(where.strip()).is_relative_to(venv)
    run("gsplit", "import", "synthetic:tiny", "--out", "graph")
    run("gsplit", "partition", "graph", "--parts", "2", "--out", "layout")
    flags = ["--fan-out", "5,5", "--hidden", "16", "--epochs", "2", "--lr", "0.01", "--device", "cpu"]
    run("gsplit", "train", "layout", *flags, "--out", "run")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["epochs"] == 2
