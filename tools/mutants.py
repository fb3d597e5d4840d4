"""Small wrong changes, one at a time, each of which some test must notice: ``make mutants``.

tools/mutants.toml lists them: a text that stands exactly once in a file of the package, what replaces it, what is
wrong then, and the tests that should notice. A private copy of the tree is made; the named tests must pass in it.
Then each change is made in the copy and its tests are run, up to the first that fails. A change that no test notices
has survived: the next test to write is the one that kills it.

    python -m tools.mutants [--only NAME ...] [--list] [--markdown FILE]

The libraries for this make up their changes from the syntax (mutmut and cosmic-ray for Python, mull and
universalmutator for C++): thousands of them, mostly harmless or noticed by everything, and each would have to face
the whole suite. None does Python and C++ in one project. What is wanted here is a short list of mistakes that one
could really make, with the tests that are there to prevent them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

import nanobind
import psutil

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import gsplit._core
from tools import real_graphs

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).with_suffix(".toml")
LIMIT_S = 240.0
"""After which the tests of a mutation count as hanging, which is noticed as well."""
TIME_LIMIT = "time limit"
TESTS_FAILED = 1
"""pytest's exit code where all was collected and run, and something failed."""


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One wrong change."""

    name: str
    file: str
    """Relative to the root."""
    old: str
    """Stands exactly once in the file."""
    new: str
    wrong: str
    """What is wrong then, in a sentence."""
    tests: tuple[str, ...]
    """Files or tests, as pytest takes them; the narrowest that notice."""

    @property
    def compiled(self) -> bool:
        """Whether the extension must be built."""
        return self.file.endswith((".cpp", ".hpp"))

    def applied(self, text: str) -> str:
        """The file's text with the change.

        Raises:
            ValueError: where the old text does not stand in it exactly once.
        """
        count = text.count(self.old)
        if count != 1 or self.old == self.new:
            raise ValueError(f"mutation {self.name}: its old text stands {count} times in {self.file}, not once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came of one mutation."""

    mutation: Mutation
    caught_by: str | None
    """A test, ``time limit`` or the signal that ended pytest; None: it survived."""
    seconds: float


def load(path: Path = LIST, root: Path = ROOT) -> list[Mutation]:
    """The mutations of a list, all of which apply to the tree.

    Raises:
        ValueError: for one that does not, and for names or tests that are missing.
    """
    entries = tomllib.loads(path.read_text())["mutation"]
    mutations = [Mutation(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
    names = [mutation.name for mutation in mutations]
    for mutation in mutations:
        if names.count(mutation.name) > 1 or not mutation.tests:
            raise ValueError(f"mutation {mutation.name}: it needs a name of its own, and tests")
        for test in mutation.tests:
            if not exists(test, root):
                raise ValueError(f"mutation {mutation.name}: there is no {test}")
        mutation.applied((root / mutation.file).read_text())
    return mutations


def exists(test: str, root: Path = ROOT) -> bool:
    """Whether there is such a file of tests, and in it such a test."""
    file, _, function = test.partition("::")
    path = root / file
    return path.is_file() and (not function or f"def {function.split('[')[0]}(" in path.read_text())


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
        """The first time all, from then on what changed."""
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

        No process of the copy is left.
        """
        temporary = self.path / ".tmp"
        temporary.mkdir()
        pytest = subprocess.Popen(
            [self.python, "-m", "pytest", "--tb=no", "-p", "no:cacheprovider", *options, *tests],
            cwd=self.path,
            env={**os.environ, "GSPLIT_DATA": str(real_graphs.folder()), "TMPDIR": str(temporary)},
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

    def _ended(self, pytest: subprocess.Popen[str], limit_s: float | None) -> tuple[int | None, str]:
        try:
            out, _ = pytest.communicate(timeout=limit_s)
            return pytest.returncode, out
        except subprocess.TimeoutExpired:
            self._end_all()
            return None, pytest.communicate()[0]

    def _end_all(self) -> None:
        """Processes that the tests started, and a wrong change did not end."""
        for process in psutil.process_iter(["cmdline"]):
            if any(word.startswith(str(self.path)) for word in (process.info["cmdline"] or [])[:1]):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


def check_baseline(copy: Copy, mutations: Sequence[Mutation]) -> None:
    """Whether the tests pass where nothing is wrong, or no verdict would mean anything.

    Raises:
        ValueError: where one fails, or none of those that a name stands for is run.
    """
    tests = list(dict.fromkeys(test for mutation in mutations for test in mutation.tests))
    code, out = copy.test(tests, "-rA", limit_s=None)
    passed = re.findall(r"^PASSED (.+)$", out, re.MULTILINE)
    if code:
        raise ValueError(f"the tests fail without any mutation:\n{out}")
    for test in tests:
        if not any(f"{name}[".startswith((f"{test}[", f"{test}::", test + "/")) or name == test for name in passed):
            raise ValueError(f"{test} ran no test; is it skipped?")


def judge(copy: Copy, mutation: Mutation, limit_s: float) -> Verdict:
    """Run the tests of one mutation.

    Raises:
        ValueError: where they cannot be run.
    """
    start_s = time.monotonic()
    with copy.mutated(mutation):
        code, out = copy.test(mutation.tests, "-x", "-rfE", limit_s=limit_s)
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", out, re.MULTILINE)
    if code is None:
        caught_by: str | None = TIME_LIMIT
    elif code < 0:
        caught_by = signal.Signals(-code).name
    elif code == TESTS_FAILED and failed:
        caught_by = failed[1]
    elif code == 0:
        caught_by = None
    else:
        raise ValueError(f"mutation {mutation.name}: pytest ended with {code}:\n{out}")
    return Verdict(mutation=mutation, caught_by=caught_by, seconds=time.monotonic() - start_s)


def shown(caught_by: str | None) -> str:
    """The last column of docs/mutations.md."""
    if caught_by is None:
        return "**nothing**"
    file, _, test = caught_by.split("[")[0].partition("::")
    return f"`{test}` in {file.removeprefix('tests/')}" if test else file


def table(mutations: Sequence[Mutation], verdicts: Sequence[Verdict], before: str) -> str:
    """docs/mutations.md; what was not tried now stands there as in the page before."""
    rows = (line.strip("| ").split(" | ") for line in before.splitlines() if line.count(" | ") == 3)
    last = {row[0]: row[-1] for row in rows}
    last |= {verdict.mutation.name: shown(verdict.caught_by) for verdict in verdicts}
    lines = [
        "# Mutations",
        "",
        "Wrong changes that `make mutants` makes in a private copy, one at a time, and the test that notices each.",
        "The list is `tools/mutants.toml`; `python -m tools.mutants --markdown docs/mutations.md` writes this page.",
        f"A mutation may also be caught by the {TIME_LIMIT}, where its tests hang, or by the signal that ends them.",
        "",
        f"{len(mutations)} mutations, {sum(mutation.compiled for mutation in mutations)} of them in C++.",
        "",
        "| mutation | where | what is wrong then | caught by |",
        "|---|---|---|---|",
    ]
    for mutation in mutations:
        where = mutation.file.removeprefix("gsplit/")
        lines.append(f"| {mutation.name} | {where} | {mutation.wrong} | {last.get(mutation.name, '**nothing**')} |")
    return "\n".join(lines) + "\n"


def run(mutations: Sequence[Mutation], limit_s: float) -> list[Verdict]:
    """Verdicts of all, in order; one line for each is printed."""
    with tempfile.TemporaryDirectory(prefix="gsplit-mutants-") as folder:
        copy = Copy(Path(folder).resolve() / "tree")
        check_baseline(copy, mutations)
        print(f"{len(mutations)} mutations; their tests pass without any", flush=True)
        verdicts = []
        for mutation in mutations:
            verdicts.append(judge(copy, mutation, limit_s))
            how = "SURVIVED" if verdicts[-1].caught_by is None else "caught"
            by = verdicts[-1].caught_by or ""
            print(f"{how:8} {mutation.name:36} {verdicts[-1].seconds:5.0f} s  {by}", flush=True)
        return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", metavar="NAME", nargs="+", help="these mutations alone")
    parser.add_argument("--list", action="store_true", help="say what there is, run nothing")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the table, or bring it up to date")
    parser.add_argument("--limit-s", metavar="S", type=float, default=LIMIT_S, help="for the tests of a mutation")
    given = parser.parse_args()
    try:
        mutations = load()
        unknown = set(given.only or ()) - {mutation.name for mutation in mutations}
        if unknown:
            raise ValueError(f"no mutation is called {', '.join(sorted(unknown))}")
        chosen = [mutation for mutation in mutations if not given.only or mutation.name in given.only]
        if given.list:
            for mutation in chosen:
                print(f"{mutation.name:36} {mutation.file:32} {mutation.wrong}")
            return 0
        verdicts = run(chosen, given.limit_s)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if given.markdown:
        before = given.markdown.read_text() if given.markdown.exists() else ""
        given.markdown.write_text(table(mutations, verdicts, before))
    survived = [verdict.mutation.name for verdict in verdicts if verdict.caught_by is None]
    print(f"{len(verdicts) - len(survived)} of {len(verdicts)} are caught", *survived, sep="\nsurvived: ")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
