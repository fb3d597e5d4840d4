"""Random damage to one file, repeatable: any file's bytes here, texts and arrays in modules of their own.

A damage is a function (path, random numbers) that changes the file in place and says in a few words what it did.
Hostile files hold a pickle, a YAML tag or a Python expression that would make the file :data:`CANARY` in the
working folder, if anybody ran it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path
from random import Random

from experiments.faults import arrays, texts
from experiments.faults.texts import Damage, Hostile

TEXTS = (".csv", ".tsv", ".txt", ".mtx", ".toml", ".yaml", ".jsonl")
STATES = ("checkpoint.json", "model.json")
DESCRIPTIONS = ("graph.json", "layout.json")


def damages_of(path: Path) -> list[Damage]:
    """What can be done to a file of this kind, the more particular as likely as the general."""
    plain = path.name.removesuffix(".gz")
    suffix = Path(plain).suffix
    particular: list[Damage] = []
    if suffix in TEXTS or suffix == ".json":
        particular = [texts.word, texts.word, texts.line]
    if suffix == ".json":
        particular += [texts.value, texts.value, texts.value, texts.key, texts.deep]
    if suffix == ".yaml":
        particular += [texts.yaml_tag]
    if suffix in (".npy", ".npz", ".pt"):
        particular = list(arrays.DAMAGES[suffix])
    if suffix == ".parquet":
        particular = [other_table] * 4
    general = [
        truncated,
        flipped,
        flipped,
        zeroed,
        cut_out,
        repeated,
        emptied,
        appended,
        noise,
        gone,
        a_folder,
        hostile,
    ]
    return [*general, *particular * max(1, len(general) // max(1, len(particular)))]


def damage(path: Path, random: Random) -> str:
    """Do one of them; to an array of a store or a state of a run often with a checksum that fits."""
    said = random.choice(damages_of(path))(path, random)
    if path.is_file() and random.random() < 0.6 and _reseal(path):
        said += ", with a checksum that fits"
    return f"{path.name}: {said}"


def _reseal(path: Path) -> bool:
    """Whether something describes this file, and now says what it is."""
    for name in (*STATES, *DESCRIPTIONS):
        beside = path.with_name(name)
        # The description may be damaged in any way itself.
        with contextlib.suppress(OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
            about = json.loads(beside.read_bytes())
            if name in STATES and about["file"] == path.name:
                about["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
            elif name in DESCRIPTIONS:
                about["arrays"][path.stem] |= {
                    "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                    "bytes": path.stat().st_size,
                    **arrays.header_of(path),
                }
            else:
                continue
            beside.write_text(json.dumps(about))
            return True
    return False


def _piece(size: int, random: Random) -> tuple[int, int]:
    begin = random.randrange(max(1, size))
    return begin, min(size, begin + random.choice((1, 2, 4, 8, 64, 512)))


def truncated(path: Path, random: Random) -> str:
    at = random.randrange(max(1, path.stat().st_size))
    os.truncate(path, at)
    return f"cut off after {at} bytes"


def flipped(path: Path, random: Random) -> str:
    content, count = bytearray(path.read_bytes()), random.choice((1, 1, 2, 10))
    for _ in range(count if content else 0):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)
    return f"{count} bits flipped"


def zeroed(path: Path, random: Random) -> str:
    content = path.read_bytes()
    begin, end = _piece(len(content), random)
    path.write_bytes(content[:begin] + bytes(end - begin) + content[end:])
    return f"bytes {begin} to {end} zeroed"


def cut_out(path: Path, random: Random) -> str:
    content = path.read_bytes()
    begin, end = _piece(len(content), random)
    path.write_bytes(content[:begin] + content[end:])
    return f"bytes {begin} to {end} cut out"


def repeated(path: Path, random: Random) -> str:
    content = path.read_bytes()
    begin, end = _piece(len(content), random)
    path.write_bytes(content[:end] + content[begin:])
    return f"bytes {begin} to {end} repeated"


def emptied(path: Path, random: Random) -> str:
    path.write_bytes(b"")
    return "empty"


def appended(path: Path, random: Random) -> str:
    path.write_bytes(path.read_bytes() + random.randbytes(random.choice((1, 16, 4096))))
    return "noise at the end"


def noise(path: Path, random: Random) -> str:
    path.write_bytes(random.randbytes(random.choice((3, 100, 5000))))
    return "nothing but noise"


def gone(path: Path, random: Random) -> str:
    path.unlink()
    return "missing"


def a_folder(path: Path, random: Random) -> str:
    path.unlink()
    path.mkdir()
    return "a folder of this name"


def hostile(path: Path, random: Random) -> str:
    """Replace the file; :mod:`experiments.faults.arrays` hides one in archives and arrays."""
    path.write_bytes(pickle.dumps(Hostile(), protocol=random.choice((0, 2, 4))))
    return "a hostile pickle"


def other_table(path: Path, random: Random) -> str:
    """One of the tables with other columns, which lie beside the sound one."""
    chosen = random.choice(sorted((path.parent / "parquet").iterdir()))
    shutil.copyfile(chosen, path)
    return f"a table of {chosen.stem}"
