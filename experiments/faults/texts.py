"""Random damage to texts: words and lines, keys and values of JSON, YAML (:mod:`experiments.faults.damage`)."""

from __future__ import annotations

import gzip
import json
import pathlib
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

Damage = Callable[[Path, Random], str]
"""Changes a file in place and says in a few words what it did."""
CANARY = "canary"


class Hostile:
    """Unpickled, it makes the file :data:`CANARY`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pathlib.Path.touch, (pathlib.Path(CANARY),)


WORDS = (
    *b"nan inf -1 -0 1e400 -1e30 9223372036854775808 9007199254740993 1000000000000 99999999999999999999999".split(),
    *(b"0x10", b"1_000", b"", b'"', b"'", b"\x00", b"\xff\xfe", b"1.5", b"true"),
    *("\u0663".encode(), "\u202e\u2028".encode(), b"\x1b[31m", b"=1+1", b"../../etc/passwd", b"9" * 5000),
    *(b"#", b"[", b"{", b"a" * 70000),
)
"""What a word of a text is replaced by."""
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**6, 2**31, 2**63, 10**30, 10**400, 1e308, float("nan"), float("inf")),
    *("", "\n", "\x1b[31m", "\x00", "../x", "/etc/passwd", "nan", "\ud800", "x" * 70000),
    *([], [[]], {}, [None], [-1, 0], {"a": 1}, [10**30] * 3),
)
"""What a value of a JSON is replaced by."""
DEEP = 100_000


def _change(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change the bytes of a file; of a ``.gz`` those that are packed in it."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes())), mtime=0))
    else:
        path.write_bytes(change(path.read_bytes()))


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
