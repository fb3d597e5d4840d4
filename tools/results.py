"""Tables and pictures of docs/results.md and docs/results/*.md, rendered from docs/results/data/*.json.

    python -m tools.results            # write the tables into the pages
    python -m tools.results --check    # write nothing; exit code 1 where a page would change

A data file is a record of figures: ``commands``, ``date``, ``machine`` (a key of ``machines.json``), ``versions`` (or
null), ``source`` (``--json``: written by the command; ``transcribed``: typed from a printed table) and ``tables``,
each a list of rows. A page has blocks, each from a comment to ``<!-- end -->``; what is between is rendered:

    <!-- about NAME -->               the commands, date and machine of NAME.json
    <!-- table NAME.TABLE             a table: its head, and the cells of a row as format strings
    | graph | accuracy |
    | {dataset} | {mean:.4f} |
    -->
    <!-- front -->                    the figures of front.toml, each out of its record
    <!-- picture NAME.TABLE           a picture, described in TOML (tools/pictures.py)
    file = "by-cache.svg"
    ...
    -->

In a format string null is ``-`` and a list is its items with commas; ``ways[way=gather;threads=1][ratio]`` looks up
the one row of a list that has these values. Rows have the keys that the experiments' ``--json`` has for the same
figures, so a new run replaces rows, ``date`` and ``source`` of a record, and then the pages are written anew.
"""

from __future__ import annotations

import json
import re
import string
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools import pictures
from tools.toml import tomllib

DOCS = Path(__file__).parent.parent / "docs"
WIDTH = 120
"""Most characters of a line of the pages."""
BLOCK = re.compile(r"^(<!-- (about|table|front|picture)\b([^>]*?)-->\n)(.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE)
FRONT_HEAD = "| figure | paper or peer | ours | command | date | on |\n|---|---|---|---|---|---|\n"
KEYS = {"commands", "date", "machine", "versions", "source", "tables"}
SOURCES = ("--json", "transcribed")


class Cells(string.Formatter):
    """Format strings over records: rows are looked up, null is ``-`` and a list is its items."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        """The value that a name such as ``sampling[1024][ours]`` stands for."""
        first, *path = re.findall(r"[^\[\]]+", field_name)
        value = kwargs[first]
        for part in path:
            value = value[part] if isinstance(value, dict) else row_of(value, part)
        return value, first

    def format_field(self, value: Any, format_spec: str) -> str:
        """A value as a table shows it."""
        if value is None:
            return "-"
        if isinstance(value, list):
            return ", ".join(self.format_field(item, format_spec) for item in value)
        return str(format(value, format_spec))


def row_of(rows: Sequence[Mapping[str, Any]], wanted: str) -> Mapping[str, Any]:
    """The one row with these values, written ``key=value;key=value``.

    Raises:
        ValueError: where there is none, or more than one.
    """
    pairs = dict(pair.split("=", 1) for pair in wanted.split(";"))
    found = [row for row in rows if all(str(row[key]) == value for key, value in pairs.items())]
    if len(found) != 1:
        raise ValueError(f"{len(found)} rows have {wanted}")
    return found[0]


def read_record(docs: Path, name: str) -> dict[str, Any]:
    """A data file, with ``on``: its machine in words.

    Raises:
        ValueError: where a key is missing or unknown.
    """
    data = docs / "results" / "data"
    record: dict[str, Any] = json.loads((data / f"{name}.json").read_text())
    if record.keys() != KEYS or record["source"] not in SOURCES:
        raise ValueError(f"{name}.json must have the keys {sorted(KEYS)}, and a source of {SOURCES}")
    machines = json.loads((data / "machines.json").read_text())
    return {**record, "on": machines[record["machine"]]}


def about(docs: Path, name: str) -> str:
    """The commands in a code block, and a line on when, where and with what they ran."""
    record = read_record(docs, name)
    versions = (f"{library} {version}" for library, version in (record["versions"] or {}).items())
    said = " · ".join([record["date"] or "date not recorded", record["on"], *versions])
    commands = "\n".join(map(wrapped, record["commands"]))
    return f"\n```sh\n{commands}\n```\n\n{textwrap.fill(said, WIDTH)}\n"


def wrapped(command: str) -> str:
    """A command in lines that a shell reads as one."""
    lines = textwrap.wrap(
        command, WIDTH - 2, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return " \\\n".join(lines)


def table(docs: Path, template: str) -> str:
    """The table that a comment describes: NAME.TABLE, the head, the cells of a row."""
    source, head, *cells = template.strip().split("\n")
    row = " ".join(cells)
    name, _, key = source.partition(".")
    rows = read_record(docs, name)["tables"][key]
    lines = [head, "|" + "---|" * (head.count("|") - 1), *(Cells().vformat(row, (), each) for each in rows)]
    return "\n" + "\n".join(lines) + "\n"


def picture(docs: Path, template: str) -> str:
    """The link to the picture that a comment describes."""
    spec, _ = described(docs, template)
    return f"\n![{spec['alt']}]({pictures.FOLDER}/{spec['file']})\n"


def described(docs: Path, template: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The description of a picture, and the rows of its table."""
    source, _, text = template.strip().partition("\n")
    name, _, key = source.partition(".")
    return tomllib.loads(text), read_record(docs, name)["tables"][key]


def front(docs: Path) -> str:
    """The one table of the front page."""
    lines = []
    for figure in tomllib.loads((docs / "results" / "front.toml").read_text())["figure"]:
        record = read_record(docs, figure["record"])
        row, _ = Cells().get_field(f"tables[{figure['row'].replace('[', '][', 1)}", (), record)
        paper, ours = (Cells().vformat(figure[side], (), {**record, **row}) for side in ("paper", "ours"))
        cells = (figure["figure"], paper, ours, f"`{figure['command']}`", record["date"], record["machine"])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n" + FRONT_HEAD + "\n".join(lines) + "\n"


RENDERERS = {"about": about, "table": table, "picture": picture}


def rendered(page: str, docs: Path) -> str:
    """The text of a page with its blocks as they should be."""

    def block(match: re.Match[str]) -> str:
        comment, kind, template, _ = match.groups()
        if kind == "front":
            return f"{comment}{front(docs)}\n<!-- end -->"
        return f"{comment}{RENDERERS[kind](docs, template.strip())}\n<!-- end -->"

    return BLOCK.sub(block, page)


def stale(docs: Path = DOCS) -> dict[Path, str]:
    """The pages that differ from what their data gives, each with the text that it should have."""
    pages = {path: path.read_text() for path in (docs / "results.md", *sorted((docs / "results").glob("*.md")))}
    return {path: text for path, page in pages.items() if (text := rendered(page, docs)) != page}


def undrawn(docs: Path = DOCS) -> dict[Path, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The pictures that are not those of their data, each with its description and rows."""
    found = {}
    for page in sorted((docs / "results").glob("*.md")):
        for _, kind, template, _ in BLOCK.findall(page.read_text()):
            if kind == "picture":
                spec, rows = described(docs, template)
                path = docs / "results" / pictures.FOLDER / spec["file"]
                if not pictures.is_drawn(path, rows, spec):
                    found[path] = (spec, rows)
    return found


def main(arguments: Sequence[str]) -> int:
    """Write what is stale, or name it; the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m tools.results [--check]", file=sys.stderr)
        return 2
    found, missing = stale(), undrawn()
    if arguments:
        for path in (*found, *missing):
            print(f"{path}: not what docs/results/data gives; run python -m tools.results")
        return 1 if found or missing else 0
    for path, text in found.items():
        path.write_text(text)
    for path, (spec, rows) in missing.items():
        pictures.draw(path, rows, spec)
    for path in (*found, *missing):
        print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
