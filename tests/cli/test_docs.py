"""Pages with programs run as they stand, and every command of an experiment that a document has parses."""

from __future__ import annotations

import csv
import importlib
import json
import os
import re
import runpy
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from support import pool as pool_module
from support.commands import python
from support.devices import HIDDEN
from support.libraries import HAS_DGL, needs_dgl
from support.runs import records

from experiments.baselines.pyg_forms import GIVEN
from experiments.baselines.pyg_forms import forms as pyg_forms
from gsplit.data import open_store
from gsplit.data.importers.formats.dgl import import_dgl
from gsplit.train.check.gradients import compare

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "Makefile", *(ROOT / "tools").glob("*.sh"), *(ROOT / "docs").rglob("*.md")]
DOCUMENTS.remove(ROOT / "docs" / "development" / "log.md")  # its commands are those of their day
MENTIONED = [
    found
    for document in DOCUMENTS
    for found in re.findall(r"-m (experiments[\w.]*)([^`\n|]*)", document.read_text().replace("\\\n", ""))
]
"""Modules that documents mention, each with the words after it."""
COMMANDS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
    for path in (ROOT / "experiments").rglob("*.py")
    if "\ncommand = Experiment(" in path.read_text()
)
THEIRS = ("python train_dgl.py", "python train_pyg.py")
OWN_PROCESSES = ("--out run-pyg", "python train_loop.py", "python link_loop.py", *THEIRS)
"""Ends of the commands that start processes of their own; for the others trainers of the pool do, or none."""


def move_to(member, folder):
    """Work in a folder, and find modules there, as a process does that is started in it."""
    os.chdir(folder)
    sys.path.insert(0, folder)


def check_in_trainer(member, spec):
    return compare(member, replace(spec, checker=pool_module.SHARED.checker))


@pytest.fixture
def read(tmp_path, monkeypatch, pool, in_pool, capsys):
    """read(page): do what a page of docs/ says, in an empty folder; what each of its commands printed.

    Training by another library takes long, and is left out without ``theirs``. ``change`` makes another command of
    each, or none.
    """

    def follow(name, theirs=False, change=str):
        blocks = re.findall(
            r"^```(python|sh)\n(.*?)^```", (ROOT / "docs" / name).read_text(), re.DOTALL | re.MULTILINE
        )
        for text in (text for kind, text in blocks if kind == "python"):
            file = re.match(r"# (\w+\.py)\n", text)
            assert file, "a file says its name first"
            (tmp_path / file[1]).write_text(text)
            compile(text, file[1], "exec")
        commands = [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]
        changed = [after for command in commands if (after := change(command))]
        return {command: said_by(command) for command in changed if can_run(command, theirs)}

    def said_by(command):
        words = shlex.split(command)
        assert words[0] == "python"
        if words[1:3] == ["-m", "gsplit.train"]:
            words += ["--device", "cpu"]
        if command.endswith(OWN_PROCESSES):
            return python(*words[1:], env={**os.environ, **HIDDEN}).stdout
        with in_pool():
            if words[1] != "-m":
                runpy.run_path(words[1], run_name="__main__")
            else:
                importlib.import_module(f"{words[2]}.__main__").command(words[3:])
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    pool.run(2, move_to, str(tmp_path))
    monkeypatch.setattr(
        "gsplit.train.check.gradients.start",
        lambda _, world, spec: SimpleNamespace(join=lambda: pool.run(world, check_in_trainer, spec)),
    )
    yield follow
    if not pool.closed:
        pool.run(2, move_to, str(ROOT))


def can_run(command, theirs):
    """Whether what a command needs is installed: DGL, or what PyG's loader samples by."""
    if command in THEIRS and (not theirs or ("pyg" in command and pyg_forms() == (GIVEN,))):
        return False
    return HAS_DGL or "dgl" not in command.replace("--to dgl", "")


def accuracy_in(text):
    return float(re.search(r"test accuracy (\d\.\d+)", text)[1])


@pytest.mark.slow
def test_bring_your_own_model(read, tmp_path):
    printed = read("bring_your_own_model.md")
    assert len(printed) == 13 - (not HAS_DGL)
    assert any("Net can be split" in text for text in printed.values())
    assert any("the loss my_loss:margin is a sum over targets" in text for text in printed.values())
    for run in ("run-pyg", "run-own", "run-loss", *(["run-dgl"] if HAS_DGL else [])):
        lines = next(text for command, text in printed.items() if command.endswith(run))
        assert accuracy_in(lines) > 0.3  # of 4 classes
    assert float(printed["python train_mine.py"].splitlines()[-1]) > 0.3
    assert re.search(r"best of 10: 0\.[3-9]\d+, test 0\.[3-9]", printed["python train_loop.py"])
    assert len((tmp_path / "train_loop.py").read_text().splitlines()) <= 30
    classes = np.load(tmp_path / "classes.npy")
    assert len(classes) == 1000
    assert len(set(classes.tolist())) > 1


def test_links(read, tmp_path):
    printed = read("guides/links.md")
    ranked = {path.name: json.loads((path / "summary.json").read_text()) for path in tmp_path.glob("run*")}
    assert set(ranked) == {"run", "run-own", "run-loop"}
    assert all(summary["test_mrr"] > 0.008 for summary in ranked.values())  # 0.0075 by chance, of 1,000 vertices
    assert ranked["run"]["test_hits@10"] > 0
    neighbours = (tmp_path / "neighbours.csv").read_text().splitlines()
    assert (neighbours[0], len(neighbours)) == ("source,destination,rank,score", 1 + 10 * 1000)
    checked = next(text for command, text in printed.items() if command.endswith("--check-model"))
    assert "my_links:Distance scores each pair by itself; the loss my_links:hinge is a sum over groups" in checked
    found = float(re.search(r"test MRR (0\.\d+)", printed["python link_loop.py"])[1])
    assert found == pytest.approx(ranked["run-loop"]["test_mrr"], abs=1e-4)


def test_several_types(read, tmp_path):
    printed = read("guides/several-types.md")
    (trained,) = [text for command, text in printed.items() if command.endswith("--out run")]
    assert accuracy_in(trained) > 0.1  # of 349 classes, in 2 epochs
    assert len(np.load(tmp_path / "classes.npy")) == 2946
    assert np.load(tmp_path / "authors.npy").shape == (4539, 32)


def test_from_tables(read, tmp_path, pool, monkeypatch):
    printed = read("from-tables.md")
    lines = {command.rpartition("--out ")[2]: text for command, text in printed.items()}
    assert accuracy_in(lines["run"]) > 0.9  # of 3 classes, two thirds of which are persons
    assert open_store(tmp_path / "graph-of-queries").checksum == open_store(tmp_path / "graph").checksum
    kinds = rows_of_table(tmp_path / "kinds.csv")
    assert len(kinds) == 900
    reports = rows_of_table(tmp_path / "reports.csv")
    right = np.mean([kinds[name][0] == report[0] for name, report in reports.items()])
    assert right > 0.9
    probabilities = rows_of_table(tmp_path / "probabilities.csv")
    assert list(probabilities) == ["Köln, 1213", "Nantes, 1531"]
    for name, row in probabilities.items():
        shares = dict(zip(("mule", "person", "shop"), map(float, row), strict=True))
        assert max(shares, key=shares.get) == kinds[name][0]
        assert sum(shares.values()) == pytest.approx(1)
    new_kinds = rows_of_table(tmp_path / "new_kinds.csv")
    assert len(new_kinds) == 960
    new = {name: row[-1] for name, row in rows_of_table(tmp_path / "new_accounts.csv").items()}
    assert np.mean([new_kinds[name][0] == kind for name, kind in new.items()]) > 0.8  # of 3 classes of 20 or so
    # In another order, and by other names or by numbers, the accounts are the same graph, and so is what is learned.
    payments = (tmp_path / "payments.csv").open(newline="")
    ends = [name for payer, payee, _ in list(csv.reader(payments))[1:] for name in (payer, payee)]
    number_of = {name: str(number) for number, name in enumerate([*dict.fromkeys(ends), "Nantes, 5000"])}
    for ids, called in (("any", {name: f'"{name[::-1]}"\n' for name in number_of}), ("whole", number_of)):
        folder = tmp_path / ids
        rename_tables(tmp_path, folder, called)
        monkeypatch.chdir(folder)
        pool.run(2, move_to, str(folder))
        more = "" if ids == "any" else " --num-vertices 900"
        printed = read("from-tables.md", change=lambda words, ids=ids, more=more: again(words, ids, more))
        (trained,) = [text for command, text in printed.items() if command.endswith("--out run")]
        assert accuracy_in(trained) == accuracy_in(lines["run"])
        found = rows_of_table(folder / "kinds.csv")
        assert {name: found[called[name].strip()] for name in kinds} == kinds


def again(command, ids, more):
    """A command of the page on renamed tables; nothing for those that make tables, ask for some names, or go on."""
    if any(word in command for word in ("asked", "new", "query")) or "-m" not in command:
        return None
    return command.replace("--ids any", f"--ids {ids}") + more * ("gsplit.data" in command)


def rows_of_table(path):
    """The other columns by the first one."""
    with path.open(newline="") as file:
        return {row[0].strip(): row[1:] for row in list(csv.reader(file))[1:]}


def rename_tables(source, folder, called):
    """The tables of accounts with other names, and but for the payments in another order."""
    folder.mkdir()
    for name, columns in (("payments.csv", 2), ("accounts.csv", 1), ("reports.csv", 1)):
        with (source / name).open(newline="") as file:
            header, *rows = csv.reader(file)
        rows = [[*(called[name] for name in row[:columns]), *row[columns:]] for row in rows]
        if columns == 1:
            np.random.default_rng(1).shuffle(rows)
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])


LIBRARIES = ["pyg", pytest.param("dgl", marks=[needs_dgl, pytest.mark.slow])]


@pytest.mark.parametrize("library", LIBRARIES)
def test_coming_from_a_library(read, tmp_path, library):
    printed = read(f"coming-from-{library}.md")
    (trained,) = [text for command, text in printed.items() if command.endswith("--out run")]
    assert accuracy_in(trained) > 0.6
    assert any("SAGE can be split" in text for text in printed.values())
    assert printed["python exchange_weights.py"] == "weights fit both ways\n"
    assert len(np.load(tmp_path / "classes.npy")) == 1000


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_library_makes_as_many_steps(read, tmp_path, library):
    """Their script and our command, one after the other: steps an epoch are the same, and both learn."""
    if library == "pyg" and pyg_forms() == (GIVEN,):
        pytest.skip("PyG's NeighborLoader needs pyg-lib or torch-sparse")
    printed = read(f"coming-from-{library}.md", theirs=True)[f"python train_{library}.py"]
    steps = len({line["batch"] for line in records(tmp_path / "run", "mini-batch")})
    found = re.search(r"(\d+) steps an epoch, loss (\d\.\d+)", printed)
    assert int(found[1]) == steps
    assert float(found[2]) < 1.0


@needs_dgl
def test_dgl_lists_fan_outs_the_other_way_round():
    """The last number is of the targets' in-neighbours."""
    dgl = import_dgl()
    graph = dgl.rand_graph(50, 2000)
    _, _, blocks = dgl.dataloading.NeighborSampler([2, 7]).sample_blocks(graph, np.arange(5))
    assert [int(block.in_degrees().max()) for block in blocks] == [2, 7]


def test_the_first_screen_says_what_has_never_run_and_where_it_does_not_help():
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:25])
    assert "It has run on one GPU, never on several" in first_screen
    assert "It does not help everywhere" in first_screen


def test_readme_is_short_and_guides_say_what_is_absent():
    assert len((ROOT / "README.md").read_text().split()) <= 1300
    for guide in (ROOT / "docs" / "guides").glob("*.md"):
        assert guide.read_text().count("\n## What there is not\n") == 1, guide.name
        assert f"docs/guides/{guide.name}" in (ROOT / "README.md").read_text()


def test_the_picture_stands_alone():
    """It is well-formed, brings its own ground, by light and by dark, and fetches nothing."""
    text = (ROOT / "docs" / "split-parallelism.svg").read_text()
    picture = ElementTree.fromstring(text)
    assert [each.tag.rpartition("}")[2] for each in picture][:3] == ["title", "desc", "style"]
    assert text.count(".ground { fill: #") == 2
    assert not re.findall(r"href|url\(|@import|<script|<image", text)


def test_every_experiment_is_mentioned():
    assert len(COMMANDS) >= 15
    assert {module for module, _ in MENTIONED} == set(COMMANDS)
    short = re.findall(r"`((?:paper|micro)\.\w+)`", (ROOT / "docs" / "results.md").read_text())
    assert {f"experiments.{name}" for name in short} < set(COMMANDS)


@pytest.mark.parametrize("module", COMMANDS)
def test_the_commands_of_an_experiment_parse(module, monkeypatch, capsys):
    """Experiments take minutes, so that their flags parse has to do."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # importing experiments.faults sets both
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    found = importlib.import_module(module)
    if hasattr(found, "__path__"):
        found = importlib.import_module(f"{module}.__main__")
    command = found.command
    assert f"python -m {module}" == command.prog
    for mentioned, words in MENTIONED:
        if mentioned == module and "$" not in words:
            command.parse(shlex.split(words, comments=True))
    with pytest.raises(SystemExit) as end:
        command(["--help"])
    assert end.value.code == 0
    assert command.prog in capsys.readouterr().out
