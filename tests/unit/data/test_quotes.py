"""Quotes that parsers repair in silence are refused with their line; those that mean something, or nothing, stay."""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gsplit
from gsplit.data.importers.tables import text_format, text_tables
from gsplit.data.importers.tables.table import open_table
from gsplit.data.importers.tables.text_format import TextFormat
from gsplit.data.importers.tables.text_tables import OddQuotesError, first_odd_line, whole_rows
from gsplit.errors import InputError


def imported(tmp_path, text, suffix="csv"):
    path = tmp_path / f"edges.{suffix}"
    data = text.encode()
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    return gsplit.import_graph(path, tmp_path / "graph", ids="any")


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('src,dst\na,b\n"Kostas" Theatre,b\nc,d\n', 3),
        ('src,dst\na,b\nc,"d"e\n', 3),
        ('src,dst\na,"b\nc,d\ne,f\n', 2),
        ('src,dst\n"two\nlines",b\n"c"d,e\n', 4),
        ('# a comment with one "\nsrc,dst\na,b\n"c" d,e\n', 4),
        ('src;dst\na;b\n"c" d;e\n', 3),
    ],
)
def test_a_field_that_goes_on_after_its_quotes_has_a_line(tmp_path, text, line, suffix):
    with pytest.raises(InputError, match=rf"edges.{suffix}, line {line}: a field in quotes goes on"):
        imported(tmp_path, text, suffix)
    assert not (tmp_path / "graph").exists()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('src,dst\n"a, b","c ""d"""\n', ["a, b", 'c "d"']),
        ('src,dst\nToys "R" Us,5" pipe\n', ['Toys "R" Us', '5" pipe']),
        ('src,dst\n"two\nlines",b\n', ["two\nlines", "b"]),
        ('# "odd\nsrc,dst\n"a","b"\n', ["a", "b"]),
        ('"src","dst"\r\n"a","b"\r\n', ["a", "b"]),
    ],
)
def test_quotes_that_are_right_or_mean_nothing_stay(tmp_path, text, names):
    imported(tmp_path, text)
    with pa.ipc.open_file(tmp_path / "graph" / "ids.arrow") as ids:
        assert ids.read_all().column(0).to_pylist() == names


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('src  dst\n"c  d"  e\n"two\nlines"  b\n', 3),
        ('src  dst\n' + 'c  d\n' * 99 + '"two\n\nlines"  b\n', 101),
        ('src  dst\r\na  5"\r\nb  "two\r\nlines"\r\n', 3),
    ],
)  # fmt: skip
def test_a_line_end_in_quotes_is_refused_where_columns_are_lined_up(tmp_path, monkeypatch, text, line):
    """There lines are taken apart before quotes are looked at: spaces in the second one would be put together."""
    monkeypatch.setattr(text_format, "BLOCK_BYTES", 64)
    with pytest.raises(InputError, match=rf"edges.txt, line {line}: a field in quotes goes on in the next line"):
        imported(tmp_path, text, "txt")
    assert not (tmp_path / "graph").exists()
    imported(tmp_path, text.replace("  ", " ").replace("\n\n", "\n"), "txt")


def test_quotes_of_tables_of_vertices_are_held_to_the_same(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst\nKostas Theatre,b\n")
    (tmp_path / "x.csv").write_text('id,x\nb,1\n"Kostas" Theatre,2\n')
    with pytest.raises(InputError, match=r"x\.csv, line 3: a field in quotes goes on"):
        gsplit.import_graph(tmp_path / "edges.csv", tmp_path / "graph", ids="any", features=tmp_path / "x.csv")


def rows_of(text):
    return list(csv.reader(io.StringIO(text, newline="")))


COMMAS = TextFormat(delimiter=",", quote='"')
FIELDS = st.text(st.sampled_from('ab",\n'), max_size=6)


@settings(max_examples=400)
@given(text=st.text(st.sampled_from('ab",\n'), max_size=30), size=st.integers(1, 9))
@example(text='a,"b"\n', size=1)
@example(text='"a""b"', size=4)
@example(text='a,b\n"a', size=4)
@example(text='5" b,a\n"a\n",b\n', size=4)
def test_pieces_hold_whole_rows_and_are_refused_as_a_strict_reader_does(text, size):
    pieces = whole_rows(io.BytesIO(text.encode()), COMMAS, size)
    if first_odd_line(io.StringIO(text, newline=""), COMMAS.of_csv) is not None:
        with pytest.raises(OddQuotesError):
            list(pieces)
        return
    found = [bytes(piece).decode() for piece in pieces]
    assert "".join(found) == text
    assert [row for piece in found for row in rows_of(piece)] == rows_of(text)
    unchecked = whole_rows(io.BytesIO(text.encode()), COMMAS, size, check=False)
    assert [bytes(piece).decode() for piece in unchecked] == found


@settings(max_examples=200)
@given(rows=st.lists(st.lists(FIELDS, min_size=2, max_size=2), max_size=5))
def test_what_a_writer_writes_needs_no_strict_reader(rows):
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_tables, "first_odd_line", None)
        assert (
            b"".join(whole_rows(io.BytesIO(written.getvalue().encode()), COMMAS, 1 << 20)).decode()
            == written.getvalue()
        )


def test_a_quote_in_a_field_without_does_not_keep_rows_from_being_parted():
    text = b"a,b\n" + b'5" pipe,c\n' + b"d,e\n" * 1000
    assert max(map(len, whole_rows(io.BytesIO(text), COMMAS, 64))) < 200


def test_a_text_with_such_quotes_is_read_strictly_once(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(text_tables, "first_odd_line", lambda *_, **__: calls.append(1))
    (tmp_path / "table.csv").write_text("src,dst\n" + 'a "b" c,d\n' * 100)
    table = open_table(tmp_path / "table.csv")
    for _ in range(3):
        assert sum(len(texts) for texts, _ in table.texts([0, 1])) == 100
    assert len(calls) == 1


@pytest.mark.parametrize("text", ["src,dst\nA\nE,F\n", 'src,dst\n"A,B\nC,D"\nE,F\n'])
def test_a_first_row_that_is_too_short_is_one_line_and_exit_code_2(tmp_path, text):
    (tmp_path / "edges.csv").write_text(text)
    words = [sys.executable, "-m", "gsplit.data", "import", "edges.csv", "--ids", "any", "--out", "graph"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("error: edges.csv, line 2: 1 columns, not 2")
