"""Which commands read which files, and a case for each number: a command on a copy of them that was damaged."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random

from experiments.faults.damage import damage

ODD_NAMES = ("with space", "line\nend", "quote'\"", "ünïcode", "-dash", "percent%s{}", "semi;colon,comma", "x" * 150)
WHOLE = 0.1
"""Share of the cases that may start trainers."""
ODD = 0.12
"""Share of the cases in which a file or folder has an odd name, and no damage."""


@dataclass(frozen=True)
class Subject:
    """A command and the files it reads."""

    words: str
    """The name of the command, and its arguments."""
    reads: tuple[str, ...]
    """Files and folders of the material that it needs."""
    damaged: tuple[str, ...] = ("**/*",)
    """Which of them may be damaged."""


TABLES = ("csv", "npy")
IMPORTED = (
    *("edges.csv", "edges.tsv", "edges.txt", "edges.csv.gz", "edges.npy", "coo", "coo", "csc", "csc"),
    *("graph.mtx", "graph.mtx.gz", "matrix-coo.npz", "matrix-csr.npz", "matrix-bsr.npz", "matrix-dia.npz"),
    *("graph.npz", "graph.npz", "graph.pt", "graph.pt", "data.pt", "data.pt", "typed.pt", "typed.pt"),
    "graph.bin",
    *["graphbolt"] * 3,
)
"""What is imported as it is; twice or more often what can be damaged in more ways."""


def _imports() -> list[Subject]:
    found = [Subject(f"data import {name} --out out/store", (name,)) for name in IMPORTED]
    found += [Subject("data import edges.parquet --out out/store", ("edges.parquet", "parquet"), ("edges.parquet",))]
    for name, folder in (("arxiv", "ogbn_arxiv"), ("papers100M", "ogbn_papers100M"), ("mag", "ogbn_mag")):
        found += [
            Subject(f"data import ogb:ogbn-{name} --root ogb --out out/store", ("ogb",), (f"ogb/{folder}/**/*",))
        ] * 2
    given = "data import edges.csv --out out/store --undirected"
    for flag, name in product(("features", "labels"), TABLES):
        found.append(Subject(f"{given} --{flag} {flag}.{name}", ("edges.csv", f"{flag}.{name}"), (f"{flag}.{name}",)))
    for flag, name in (
        ("train", "train.txt"),
        ("train", "train.npy"),
        *(("split-file", f"split.{e}") for e in TABLES),
    ):
        words = f"{given} --labels labels.npy --{flag} {name}"
        found.append(Subject(words, ("edges.csv", "labels.npy", name), (name,)))
    return found


TRAIN = "--fan-out 3,3 --batch-size 8 --hidden 4 --device cpu --threads 1 --samplers 0"
SUBJECTS = (
    *_imports(),
    Subject("data info store", ("store",)),
    Subject("data info store --verify", ("store",)),
    Subject("data info layout", ("layout",)),
    Subject("data info layout --verify --store-dir store", ("layout", "store")),
    Subject("data info typed --verify", ("typed",)),
    Subject("data info typed-layout --verify --store-dir typed", ("typed-layout", "typed")),
    Subject("partition typed --parts 2 --method metis --out out/layout", ("typed",)),
    Subject("data export store --to npz --out out/file.npz", ("store",)),
    Subject("data export layout --to pyg --out out/file.pt", ("layout",)),
    Subject("partition store --parts 2 --method random --out out/layout", ("store",)),
    Subject("partition store --parts 2 --method metis --out out/layout", ("store",)),
    Subject(
        "partition store --parts 2 --weights presample --fan-out 3,3 --method streaming --out out/layout", ("store",)
    ),
    *[Subject("partition recipe.toml --out out/layout", ("recipe.toml", "store"), ("recipe.toml",))] * 2,
    Subject("partition store --keep layout --out out/layout", ("store", "layout"), ("layout/*",)),
    Subject(
        "data import store --add edges.csv --features features.csv --out out/grown",
        ("store", "edges.csv", "features.csv"),
    ),
    Subject("partition report layout --out out/report --fan-out 3,3 --batch-size 8 --epochs 1", ("layout",)),
    *[Subject("report run --out out/report.html", ("run",), ("run/*.json*",))] * 2,
    Subject(f"train layout --out out/run {TRAIN} --epochs 1", ("layout",)),
    *[Subject("train --resume run --epochs 2 --samplers 0", ("run", "layout"), ("run/*",))] * 4,
    Subject("train --resume run --epochs 2 --samplers 0", ("run", "layout"), ("layout/*",)),
    *[Subject("predict run layout --device cpu --out out/p.npy", ("run", "layout"), ("run/*",))] * 3,
    Subject("predict run layout --device cpu --out out/p.csv", ("run", "layout"), ("layout/*",)),
    Subject(
        "predict run layout --device cpu --out out/p.npz --vertices vertices.txt",
        ("run", "layout", "vertices.txt"),
        ("vertices.txt",),
    ),
    Subject(
        "predict run layout --device cpu --out out/p.npy --vertices vertices.npy",
        ("run", "layout", "vertices.npy"),
        ("vertices.npy",),
    ),
    *[Subject("overlap trace.json --json out/overlap.json", ("trace.json",))] * 2,
)


@dataclass
class Case:
    """A command on files that one or two damages were done to."""

    number: int
    words: list[str]
    folder: Path
    damages: list[str]
    changes: str
    """A folder that it may change where it succeeds: the run that it resumes."""
    whole: bool
    """Trainers are started; else the command ends where it would start them."""
    before: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"case {self.number}: {' '.join(self.words)!r} with {'; '.join(self.damages)}"


def make_case(number: int, seed: int, material: Path, work: Path) -> Case:
    """Copy what the command of this number reads, and damage it; the same for the same seed."""
    random = Random(f"{seed}/{number}")
    subjects = [subject for subject in SUBJECTS if all((material / name).exists() for name in subject.reads)]
    subject = subjects[number % len(subjects)]
    folder = Path(tempfile.mkdtemp(prefix=f"{number}-", dir=work))
    (folder / "out").mkdir()
    words = subject.words.split(" ")
    for name in subject.reads:
        copy = shutil.copytree if (material / name).is_dir() else shutil.copyfile
        copy(material / name, folder / name)
    files = sorted({path for at in subject.damaged for path in folder.glob(at) if path.is_file()})
    files = [path for path in files if path.name != ".lock"]
    damages, odd = [], random.random() < ODD and _odd_name(subject, words, folder, random)
    if odd:
        damages.append(odd)
    else:
        os.chdir(folder)
        for path in random.sample(files, min(len(files), random.choice((1, 1, 1, 2)))):
            if path.is_file():
                damages.append(damage(path, random))
    shutil.rmtree(folder / "parquet", ignore_errors=True)
    changes = words[words.index("--resume") + 1] if "--resume" in words else ""
    case = Case(number, words, folder, damages, changes, whole=random.random() < WHOLE)
    case.before = contents(folder)
    return case


def _odd_name(subject: Subject, words: list[str], folder: Path, random: Random) -> str:
    """Give a file that the command is told another name, or its output; what was done."""
    named = [name for name in (*subject.reads, "out/") if any(_names(word, name) for word in words)]
    named = [name for name in named if not (name == "layout" and "--resume" in words)]  # the run knows it by its name
    name, odd = random.choice(named), random.choice(ODD_NAMES)
    new = f"{odd}/" if name == "out/" else f"./{odd}{Path(name).name[len(Path(name).stem.split('.')[0]) :]}"
    (folder / name).rename(folder / new)
    words[:] = [word.replace(name, new, 1) if _names(word, name) else word for word in words]
    return f"{name} called {new!r}"


def _names(word: str, name: str) -> bool:
    return word == name or (name == "out/" and word.startswith(name))


def contents(folder: Path) -> dict[str, str]:
    """What is in a folder and below: path -> kind, or SHA-256 of a file."""
    return {
        str(path.relative_to(folder)): "folder" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
    }
