"""Random damage to one file, repeatable: bytes, words of a text, keys and values of JSON; arrays are in
:mod:`experiments.faults.arrays`.

A damage is a function (path, random numbers) that changes the file in place and says in a few words what it did.
Hostile files hold a pickle, a YAML tag or a Python expression that would make the file :data:`CANARY` in the
working folder, if anybody ran it.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from experiments.faults import arrays
from experiments.faults.hostile import CANARY, Damage, Hostile

WORDS = (
    b"nan",
    b"inf",
    b"-1",
    b"-0",
    b"1e400",
    b"-1e30",
    b"9223372036854775808",
    b"9007199254740993",
    b"1000000000000",
    b"99999999999999999999999",
    b"0x10",
    b"1_000",
    b"",
    b'"',
    b"'",
    b"\x00",
    b"\xff\xfe",
    b"1.5",
    b"true",
    "\u0663".encode(),
    "\u202e\u2028".encode(),
    b"\x1b[31m",
    b"=1+1",
    b"../../etc/passwd",
    b"9" * 5000,
    b"#",
    b"[",
    b"{",
    b"a" * 70000,
)
"""What a word of a text is replaced by."""
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**6,
    2**31,
    2**63,
    10**30,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "\n",
    "\x1b[31m",
    "\x00",
    "../x",
    "/etc/passwd",
    "nan",
    "\ud800",
    "x" * 70000,
    [],
    [[]],
    {},
    [None],
    [-1, 0],
    {"a": 1},
    [10**30] * 3,
)
"""What a value of a JSON is replaced by."""
DEEP = 100_000
TEXTS = (".csv", ".tsv", ".txt", ".mtx", ".toml", ".yaml", ".jsonl")
STATES = ("checkpoint.json", "model.json")
DESCRIPTIONS = ("graph.json", "layout.json")


def damages_of(path: Path) -> list[Damage]:
    """What can be done to a file of this kind, the more particular as likely as the general."""
    plain = path.name.removesuffix(".gz")
    suffix = Path(plain).suffix
    particular: list[Damage] = []
    if suffix in TEXTS or suffix == ".json":
        particular = [word, word, line]
    if suffix == ".json":
        particular += [value, value, value, key, deep]
    if suffix == ".yaml":
        particular += [yaml_tag]
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


def _change(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Of a ``.gz`` what is packed in it."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes())), mtime=0))
    else:
        path.write_bytes(change(path.read_bytes()))


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
    """In place of the file; :mod:`experiments.faults.arrays` hides one in archives and arrays."""
    path.write_bytes(pickle.dumps(Hostile(), protocol=random.choice((0, 2, 4))))
    return "a hostile pickle"


def word(path: Path, random: Random) -> str:
    by = random.choice(WORDS)

    def change(text: bytes) -> bytes:
        found = list(re.finditer(rb"[^\s,;:\"'\[\]{}]+", text))
        if not found:
            return by
        at = random.choice(found)
        return text[: at.start()] + by + text[at.end() :]

    _change(path, change)
    return f"a word made {by[:20]!r}"


def line(path: Path, random: Random) -> str:
    how = random.choice(("dropped", "doubled", "emptied", "put first", "joined with the next"))

    def change(text: bytes) -> bytes:
        lines = text.split(b"\n")
        at = random.randrange(len(lines))
        chosen = lines[at]
        after = {
            "dropped": [],
            "doubled": [chosen] * 2,
            "emptied": [b""],
            "put first": [chosen],
            "joined with the next": [chosen + b"\r"],
        }[how]
        lines[at : at + 1] = after
        return b"\n".join([chosen, *lines] if how == "put first" else lines)

    _change(path, change)
    return f"a line {how}"


def _places(found: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value in a JSON."""
    items = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return [place for key, value in list(items) for place in ((found, key), *_places(value))]


def value(path: Path, random: Random) -> str:
    by = random.choice(VALUES)
    whole = json.loads(path.read_text())
    container, at = random.choice(_places(whole))
    container[at] = by
    path.write_text(json.dumps(whole))
    return f"{str(at)[:30]} made {str(by)[:20]!r} of type {type(by).__name__}"


def key(path: Path, random: Random) -> str:
    how = random.choice(("dropped", "renamed", "added"))
    whole = json.loads(path.read_text())
    container, at = random.choice([place for place in _places(whole) if isinstance(place[0], dict)])
    if how == "added":
        container[random.choice(("", "\n", "x", "\x1b[31m", "__class__"))] = 1
    else:
        kept = container.pop(at)
        if how == "renamed":
            container[f"{at}\n"] = kept
    path.write_text(json.dumps(whole))
    return f"a key {how}: {at}"


def deep(path: Path, random: Random) -> str:
    form = random.choice(("[", '{"a":'))
    path.write_text(form * DEEP)
    return f"{DEEP} times {form}"


def yaml_tag(path: Path, random: Random) -> str:
    form = random.choice(("tag", "deep", "aliases", "date", "number"))
    hostile_tag = f"graph: !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path [{CANARY}]]\n"
    aliases = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}{f', *a{i - 1}' * 9}]\n" for i in range(1, 9))
    content = {
        "tag": hostile_tag,
        "deep": "[" * 3000,
        "aliases": aliases + "graph: *a8\n",
        "date": "graph: 2001-99-99\n",
        "number": "graph: {nodes: [{num: " + "9" * 5000 + "}]}\n",
    }[form]
    path.write_text(content)
    return f"YAML with {form}"


def other_table(path: Path, random: Random) -> str:
    """One of the tables with other columns, which lie beside the sound one."""
    chosen = random.choice(sorted((path.parent / "parquet").iterdir()))
    shutil.copyfile(chosen, path)
    return f"a table of {chosen.stem}"
