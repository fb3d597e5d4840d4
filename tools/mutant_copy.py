"""A private copy of the tree, in which mutations are made and their tests run.

Tests in tests/accelerator run on the simulated accelerator (tests/simulator), which is a device of PyTorch's in them
alone: other tests would take it for a GPU. It is built once, in the build/ of the original, for it and all copies.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from importlib.util import cache_from_source
from pathlib import Path

import nanobind
import psutil

import gsplit._core
from experiments.shared import real_graphs
from tools.mutations import ROOT, Mutation

ON_ACCELERATORS = "tests/accelerator/"
"""Where the tests are that need the simulated accelerator."""
SIMULATED = Path("build", "simulator")
"""What is built of it, in the original as in a copy."""


class Copy:
    """A private copy of the tree, with an environment in which it, and not the original, is what is imported.

    The environment is a virtual one that sees the packages of this one, so that every process that a test starts
    imports the copy as well, whatever variables it is given.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout.decode()
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, path / name)
        built = Path(gsplit._core.__file__)
        self._built = path / "gsplit" / built.name
        self._unchanged = built.read_bytes()
        self._built.write_bytes(self._unchanged)
        venv.create(path / ".venv", with_pip=False, symlinks=True)
        self.python = path / ".venv" / "bin" / "python"
        packages = [str(path), *(entry for entry in sys.path if entry.endswith("-packages"))]
        next(path.glob(".venv/lib/python*/site-packages")).joinpath("copy.pth").write_text("\n".join(packages) + "\n")
        self._check_imports()
        self._simulated = False
        """Whether the simulated accelerator was built, or found."""

    def _check_imports(self) -> None:
        code = "import gsplit, gsplit._core; print(gsplit.__file__, gsplit._core.__file__)"
        done = subprocess.run([self.python, "-c", code], cwd="/", stdout=subprocess.PIPE, text=True, check=True)
        assert done.stdout.split() == [str(self.path / "gsplit" / "__init__.py"), str(self._built)], done.stdout

    @contextlib.contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """Make a change, and take it back at the end.

        Raises:
            ValueError: where what was changed does not compile.
        """
        file = self.path / mutation.file
        before = file.read_text()
        self._write(file, mutation.applied(before))
        try:
            if mutation.compiled:
                self._build(mutation)
            yield
        finally:
            self._write(file, before)
            self._built.write_bytes(self._unchanged)

    def _write(self, file: Path, text: str) -> None:
        file.write_text(text)
        if file.suffix == ".py":  # a time of one second would not tell two texts apart
            Path(cache_from_source(str(file))).unlink(missing_ok=True)

    def _build(self, mutation: Mutation) -> None:
        """Build the extension: the first time all of it, from then on what changed."""
        folder = self.path / "build"
        search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        cmake, ninja = (shutil.which(tool, path=search) or tool for tool in ("cmake", "ninja"))
        commands: list[list[str | Path]] = [[cmake, "--build", folder]]
        if not (folder / "build.ninja").exists():
            commands.insert(
                0,
                [
                    cmake,
                    "-S",
                    self.path,
                    "-B",
                    folder,
                    "-G",
                    "Ninja",
                    f"-DCMAKE_MAKE_PROGRAM={ninja}",
                    "-DCMAKE_BUILD_TYPE=Release",
                    f"-DPython_EXECUTABLE={sys.executable}",
                    f"-Dnanobind_DIR={nanobind.cmake_dir()}",
                ],
            )
        for command in commands:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode:
                raise ValueError(f"mutation {mutation.name} does not compile:\n{done.stdout}")
        self._built.unlink()  # a new file, for what is mapped must not change
        shutil.copy2(next(folder.glob("_core*.so")), self._built)

    def test(self, tests: Sequence[str], *options: str, limit_s: float | None) -> tuple[int | None, str]:
        """Run pytest; its exit code, or None where it did not end in time, and what it printed.

        Tests on accelerators run after the others, if those pass. No process of the copy is left.
        """
        printed = ""
        for simulated in (False, True):
            some = [test for test in tests if test.startswith(ON_ACCELERATORS) == simulated]
            if some:
                code, out = self._pytest([*options, *some], limit_s, simulated=simulated)
                printed += out
                if code != 0:
                    return code, printed
        return 0, printed

    def _pytest(self, arguments: Sequence[str], limit_s: float | None, *, simulated: bool) -> tuple[int | None, str]:
        temporary = self.path / ".tmp"
        temporary.mkdir()
        paths = {"GSPLIT_DATA": str(real_graphs.folder()), "TMPDIR": str(temporary)}
        if simulated:
            self._build_simulated()
            paths["PYTHONPATH"] = str(self.path / "tests" / "simulator")
        pytest = subprocess.Popen(
            [self.python, "-m", "pytest", "--tb=no", "-p", "no:cacheprovider", *arguments],
            cwd=self.path,
            env={**os.environ, **paths},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            return self._ended(pytest, limit_s)
        finally:
            self._end_all()
            shutil.rmtree(temporary, ignore_errors=True)

    def _build_simulated(self) -> None:
        if self._simulated:
            return
        (ROOT / SIMULATED).mkdir(parents=True, exist_ok=True)
        (self.path / SIMULATED.parent).mkdir(exist_ok=True)
        (self.path / SIMULATED).symlink_to(ROOT / SIMULATED)
        build = [str(self.python), "-m", "tests.simulator.simulated.extension"]
        subprocess.run(build, cwd=self.path, stdout=subprocess.DEVNULL, check=True)
        self._simulated = True

    def _ended(self, pytest: subprocess.Popen[str], limit_s: float | None) -> tuple[int | None, str]:
        try:
            out, _ = pytest.communicate(timeout=limit_s)
            return pytest.returncode, out
        except subprocess.TimeoutExpired:
            self._end_all()
            return None, pytest.communicate()[0]

    def _end_all(self) -> None:
        """End processes that the tests started, and a wrong change did not end."""
        for process in psutil.process_iter(["cmdline"]):
            if any(word.startswith(str(self.path)) for word in (process.info["cmdline"] or [])[:1]):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
