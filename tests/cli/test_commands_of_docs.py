"""Every command of a document is run here or by a test that is named, or is one of those that take too long.

Those that are not run must parse. Commands of experiments, and those of docs/bring_your_own_model.md and of the
pages about links, types, tables and for those who come from DGL and PyG, have tests of their own in test_docs.py;
docs/development/log.md has commands of its days.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from gsplit import cli
from gsplit.__main__ import COMMANDS, PART_OF, command
from gsplit.config.predict import PredictConfig
from gsplit.config.train import TrainConfig
from gsplit.data import __main__ as data
from gsplit.doctor.__main__ import DoctorConfig
from gsplit.partition import PartitionConfig
from gsplit.partition.__main__ import read_recipe
from gsplit.partition.report import ReportConfig
from gsplit.report.__main__ import PageConfig

ROOT = Path(__file__).parent.parent.parent
ELSEWHERE = (
    "docs/development/log.md",
    "docs/bring_your_own_model.md",
    "docs/coming-from-dgl.md",
    "docs/coming-from-pyg.md",
    "docs/from-tables.md",
    "docs/guides/links.md",
    "docs/guides/several-types.md",
)
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
RESULTS = ROOT / "docs" / "results"
TOO_LONG = {
    "pip install": "builds the extension; make test does before any test",
    "make": "sets up an environment, or runs this suite",
    "gsplit train": "starts trainers, seconds each; test_whole_way.py and test_flags_of_train.py do",
    "gsplit predict": "starts trainers; test_whole_way.py and test_flags_of_predict.py do",
    "gsplit report run": "draws runs, which are made by training; test_pages.py does",
    "python -m tools.mutants": "compiles; test_mutants.py reads its list",
    "python -m pytest": "this suite",
    "tools/gpu_check.sh": "needs a GPU; test_gpu_check.py rehearses it",
    "tools/cuda_dry.sh": "fetches gigabytes; test_cuda_dry.py tests its parts",
}
"""Beginning of a command -> why it is not run here."""
PLACEHOLDERS = {"P": "4", "pyg|dgl|npz": "pyg"}
PARSED = {
    "import": cli._deferred(data.import_),
    "export": cli._deferred(data.export_),
    "info": cli._deferred(data.info),
    "partition": PartitionConfig,
    "report": PageConfig,
    "train": TrainConfig,
    "predict": PredictConfig,
    "doctor": DoctorConfig,
}
REQUIRED = {"partition": ["--out"], "import": ["--out"], "export": ["--out"]}
"""Flags that running text may leave out."""
STARTS = r"(?:\.venv/bin/)?(?:gsplit (?!\()|python -m |make\b|pip install|tools/\w+\.sh)"


def named(words: list[str]) -> list[str]:
    """``gsplit COMMAND ...`` for ``python -m gsplit.PACKAGE ...``; other commands as they are."""
    words = [words[0].removeprefix(".venv/bin/"), *words[1:]]
    if words[:2] != ["python", "-m"] or not words[2].startswith("gsplit"):
        return words
    package, rest = words[2].removeprefix("gsplit").removeprefix("."), words[3:]
    if package == "partition" and rest[:1] == ["report"]:
        return ["gsplit", *rest]
    if rest[:1] and PART_OF.get(rest[0]) == package:
        return ["gsplit", *rest]
    return ["gsplit", *([package] if package else []), *rest]


def commands_of(document: Path) -> tuple[list[list[str]], list[list[str]]]:
    """The commands in blocks, which stand one to a line, and those in running text."""
    text = document.read_text().replace("\\\n", "")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    blocks = [block for language, block in blocks if language in ("", "sh")]
    lines = [line for block in blocks for line in block.splitlines() if re.match(STARTS, line)]
    spans = re.findall(rf"`({STARTS}[^`]*)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    # The flags of experiments are looked at by test_docs.py.
    found = [[line for line in some if not re.match(r"python -m experiments", line)] for some in (lines, spans)]
    shown, mentioned = [[named(shlex.split(line, comments=True)) for line in some] for some in found]
    return shown, mentioned


def begins(words: list[str], beginning: str) -> bool:
    return words[: len(beginning.split())] == beginning.split()


def parse(words: list[str]) -> None:
    """Fails for a command that is none, or has a flag that it does not take."""
    if words[0] == "make":
        rules = re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        targets = " ".join(rules).split()
        assert all(word in targets for word in words[1:] if "=" not in word), words
    elif words[0] == "gsplit":
        words = [PLACEHOLDERS.get(word, word).strip("[]") for word in words]
        assert words[1] in COMMANDS, words
        if len(words) == 2 or words[2] in ("...", "--help"):
            return
        if words[2].endswith(".toml"):
            assert "NAME" in words[2] or read_recipe(ROOT / words[2])
            return
        flags = [word for flag in REQUIRED.get(words[1], ()) if flag not in words for word in (flag, "FILE")]
        of_layout = words[1] == "report" and not re.match("run|RUN", words[2])
        cli.parse(ReportConfig if of_layout else PARSED[words[1]], [*words[2:], *flags], prog="test")
    elif words[0].startswith("tools/"):
        assert (ROOT / words[0]).is_file()
    elif words[:2] == ["python", "-m"]:
        assert importlib.util.find_spec(words[2]), words


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands(document, tmp_path, monkeypatch):
    if document.relative_to(ROOT).as_posix() in ELSEWHERE:
        return
    shown, mentioned = commands_of(document)
    for words in [*shown, *mentioned]:
        parse(words)
    if document.parent == RESULTS:
        return  # these took long: they are how the results were had
    monkeypatch.chdir(tmp_path)
    to_run = [words for words in shown if not any(begins(words, start) for start in TOO_LONG)]
    if to_run:
        make_graphs()
    for words in to_run:
        assert words[0] == "gsplit", f"{words} is run by nobody: run it here, or say in TOO_LONG why not"
        if "--out" in words:  # one of several ways to make it
            out = Path(words[words.index("--out") + 1])
            out.unlink() if out.is_file() else shutil.rmtree(out, ignore_errors=True)
        command(words[1:])


def make_graphs() -> None:
    """What the documents call by the names of real graphs, in the working folder."""
    pyg = Path("Planetoid/Cora/processed/data.pt")
    pyg.parent.mkdir(parents=True)
    command(["import", "synthetic:tiny", "--out", "products"])
    command(["export", "products", "--to", "npz", "--out", "cora.npz"])
    command(["export", "products", "--to", "pyg", "--out", str(pyg)])
    Path("ratings.csv").write_text("userId,movieId,rating,timestamp\n1,1,4.0,964982703\n1,31,2.5,964981247\n")
    Path("movies.csv").write_text('movieId,title,genres\n1,Toy Story (1995),Comedy|Fantasy\n31,"Net, The",Drama\n')
    for tables in (duckdb.connect("shop.duckdb"), sqlite3.connect("shop.sqlite")):
        with closing(tables):
            tables.execute("CREATE TABLE sales AS SELECT 'Ann' AS buyer, 'Bag' AS item")
            tables.execute("CREATE TABLE people AS SELECT buyer AS name, 3 AS age, '2024-01-01' AS joined FROM sales")
            tables.execute("INSERT INTO people SELECT item, 4, '2024-01-02' FROM sales")
            tables.execute("CREATE TABLE visits AS SELECT 0 AS src, 1 AS dst")
            tables.commit()


def test_no_reason_is_left_over():
    every = [words for document in DOCUMENTS for some in commands_of(document) for words in some]
    assert not [start for start in TOO_LONG if not any(begins(words, start) for words in every)]


def test_links_lead_somewhere():
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            file = (document.parent / path).resolve() if path else document
            assert file.exists(), f"{document.name}: {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
                anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert anchor in anchors, f"{document.name}: {target}"


def test_files_that_are_named_are_there():
    for document in DOCUMENTS:
        if document.name == "log.md":
            continue
        for path in re.findall(r"`((?:gsplit|tests|experiments|tools|docs)/[\w./]+)`", document.read_text()):
            assert "NAME" in path or (ROOT / path).exists(), f"{document.name}: {path}"
