"""What a file is, by its first bytes, whatever it is called.

Text is read as it is, in UTF-16 and UTF-32, and packed by gzip, bzip2, xz, zstd or LZ4. What is neither text nor
Parquet is named for what it is, with the command that makes a table of it.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import re
import shlex
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from gsplit.errors import InputError

HEAD_BYTES = 1 << 12
"""Bytes that are looked at."""
BLOCK_BYTES = 1 << 16
PARQUET = b"PAR1"
MATRIX_MARKET = b"%%MatrixMarket"
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError, UnicodeError)
"""Errors that reading damaged text raises."""
PACKED: dict[bytes, tuple[str, Callable[[Path], IO[bytes]]]] = {
    b"\x1f\x8b": ("gzip", gzip.open),  # type: ignore[dict-item]
    b"BZh91AY&SY": ("bzip2", bz2.open),
    b"\xfd7zXZ\0": ("xz", lzma.open),
    b"\x28\xb5\x2f\xfd": ("zstd", lambda path: _unpacked(path, "zstd")),
    b"\x04\x22\x4d\x18": ("LZ4", lambda path: _unpacked(path, "lz4")),
}
"""Ways of packing one file, and how each is opened."""
ENCODINGS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
FEWEST_NULS = 0.7
"""Share of every second byte that is 0 in text of UTF-16 without a mark."""
MOST_CONTROLS = 0.05
"""Share of control characters in text at most; in random bytes it is a tenth."""
CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a\x1b\x1f"))
"""Bytes that text hardly has; an id may hold a separator, old systems end a file by Ctrl-Z."""


FOREIGN = (
    (0, b"\xd0\xcf\x11\xe0", "an old workbook of Excel", "pandas.read_excel({path}).to_csv({out}, index=False)"),
    (0, b"ARROW1", "an Arrow file (Feather)", "pandas.read_feather({path}).to_parquet({out})"),
    (0, b"FEA1", "a Feather file", "pandas.read_feather({path}).to_parquet({out})"),
    (0, b"ORC", "an ORC file", "pandas.read_orc({path}).to_parquet({out})"),
    (0, b"Obj\x01", "an Avro file", "polars.read_avro({path}).write_parquet({out})"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file", "pandas.read_hdf({path}).to_parquet({out})"),
    (0, b"SQLite format 3\0", "an SQLite database", "sqlite3 -header -csv {path} 'select * from TABLE' > {out}"),
    (8, b"DUCK", "a DuckDB database", "duckdb {path} -csv -c 'from TABLE' > {out}"),
    *((0, b"\x80%c" % at, "a pickle", "pandas.read_pickle({path}).to_parquet({out})") for at in range(2, 6)),
    (0, b"\x93NUMPY", "an array of NumPy", "mv {path} {out}"),
    (0, b"%PDF-", "a PDF document", None),
    (0, b"\x89PNG", "a picture", None),
    (0, b"\xff\xd8\xff", "a picture", None),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x {path}"),
    (0, b"Rar!\x1a", "a RAR archive", "unrar x {path}"),
    (257, b"ustar", "a tar archive", "tar xf {path}"),
)
"""Offset and first bytes, what has them, and the command, or the Python, that makes a table of it."""
FOREIGN_TEXTS = (
    (rb"version https://git-lfs", "a pointer of Git LFS, not the file itself", "git lfs pull"),
    (re.escape(MATRIX_MARKET), "a Matrix Market file", "gsplit import mtx:{path}"),
    (rb"\s*<(!doctype )?html", "a web page", None),
    (rb"\s*<\?xml", "XML", None),
    (rb"\s*\{\s*[\"}]", "JSON", "pandas.read_json({path}, lines=True).to_csv({out}, index=False)"),
    (rb"\s*\[\s*[\[{]", "JSON", "pandas.read_json({path}).to_csv({out}, index=False)"),
)
"""Likewise of text: how it begins, in any case."""
ZIPPED = (
    ("xl/workbook.xml", "a workbook of Excel", "pandas.read_excel({path}).to_csv({out}, index=False)"),
    ("xl/workbook.bin", "a workbook of Excel", "pandas.read_excel({path}).to_csv({out}, index=False)"),
    ("content.xml", "a sheet of LibreOffice", "pandas.read_excel({path}).to_csv({out}, index=False)"),
    (
        "format.npy",
        "a sparse matrix of SciPy",
        "import numpy, scipy.sparse; numpy.save({out}, scipy.sparse.load_npz({path}).toarray())",
    ),
    (".npy", "an archive of NumPy", "import numpy; numpy.save({out}, numpy.load({path})[NAME])"),
    ("data.pkl", "a file of torch.save", None),
    ("", "a zip archive", "unzip {path}"),
)
"""How the name of a member of a zip archive ends, what the archive is then, and the way out."""


def is_parquet(path: Path) -> bool:
    """Return whether a file is Parquet; text may begin like it."""
    try:
        head = _head(path)
    except UNREADABLE:
        return False
    return _packing(path) is None and head.startswith(PARQUET) and _controls(head) > 0


def is_matrix_market(path: Path) -> bool:
    """Return whether a file is a matrix in text, as Matrix Market writes it."""
    try:
        return _head(path).startswith(MATRIX_MARKET)
    except UNREADABLE:
        return False


def open_text(path: Path) -> IO[bytes]:
    """Open text, unpacked and in UTF-8.

    Raises:
        InputError: for what is no text, naming what it is and the command that makes a table of it.
        OSError, EOFError, zlib.error, lzma.LZMAError, UnicodeError: where it is damaged; also when it is read.
    """
    head = _head(path)
    if (found := _foreign(path, head)) is not None:
        packed = _packing(path)
        raise InputError(f"{path} is {found}" if packed is None else f"{path} holds, packed by {packed[0]}, {found}")
    file = open_unpacked(path)
    encoding = _encoding(head)
    if encoding is None:
        return file
    text = io.TextIOWrapper(file, encoding, newline="")
    return io.BufferedReader(Blocks(file, lambda: text.read(BLOCK_BYTES).encode()), BLOCK_BYTES)


class Blocks(io.RawIOBase):
    """A file that is made while it is read.

    Args:
        file: what it is made of, to be closed with it.
        next_block: function that returns the next bytes, none at the end.
    """

    def __init__(self, file: Any, next_block: Callable[[], bytes]) -> None:
        self._file, self._next_block = file, next_block
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as the block that is ready does."""
        if not self._ready:
            self._ready = memoryview(self._next_block())
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        """Close it, and what it is made of."""
        self._file.close()
        super().close()


def _packing(path: Path) -> tuple[str, Callable[[Path], IO[bytes]]] | None:
    with path.open("rb") as file:
        start = file.read(16)
    return next((packing for magic, packing in PACKED.items() if start.startswith(magic)), None)


def open_unpacked(path: Path) -> IO[bytes]:
    """Open a file, unpacked where its first bytes say that it is packed."""
    packing = _packing(path)
    return path.open("rb") if packing is None else packing[1](path)


def _unpacked(path: Path, codec: str) -> IO[bytes]:
    """A file that pyarrow unpacks."""
    import pyarrow as pa

    file = pa.CompressedInputStream(pa.OSFile(str(path)), codec)
    return io.BufferedReader(Blocks(file, lambda: file.read(BLOCK_BYTES)), BLOCK_BYTES)


def _head(path: Path) -> bytes:
    with open_unpacked(path) as file:
        return file.read(HEAD_BYTES)


def _encoding(head: bytes) -> str | None:
    """The encoding of text that is not UTF-8, or has a mark."""
    for mark, encoding in ENCODINGS:
        if head.startswith(mark):
            return encoding
    first, second = (head[at::2].count(0) / max(1, len(head) // 2) for at in range(2))
    if second > FEWEST_NULS and not first:
        return "utf-16-le"
    return "utf-16-be" if first > FEWEST_NULS and not second else None


def _foreign(path: Path, head: bytes) -> str | None:
    """What is no text, and the way out; None for text."""
    if head.startswith(b"PK\x03\x04"):
        return _named(path, *_zipped(path)[1:])
    controls = _controls(head)
    for offset, magic, what, way in FOREIGN if controls else ():  # text may begin with ORC
        if head[offset:].startswith(magic):
            return _named(path, what, way)
    if controls and head.startswith(PARQUET):
        return "a Parquet file; unpack it"
    if _encoding(head) is not None:
        return None
    for begins, what, way in FOREIGN_TEXTS:
        if re.match(begins, head, re.IGNORECASE):
            return _named(path, what, way)
    odd = head.count(0) if _is_utf8(head) else controls  # ids may hold any character but NUL
    if odd > max(1, MOST_CONTROLS * len(head)):
        return "no text and no Parquet file; export the table as one of these"
    return None


def _is_utf8(head: bytes) -> bool:
    """Return whether bytes are UTF-8, of which the last character may be cut off."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _controls(head: bytes) -> int:
    """Number of bytes that text hardly has."""
    return sum(map(head.count, CONTROLS))


def zipped_names(path: Path) -> list[str]:
    """Return the names of the members of a zip archive; none of what is none, or is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return []


def _zipped(path: Path) -> tuple[str, str, str | None]:
    """The row of ``ZIPPED`` for an archive."""
    names = zipped_names(path)
    return next(row for row in ZIPPED if not row[0] or any(name.endswith(row[0]) for name in names))


def _named(path: Path, what: str, way: str | None) -> str:
    """What a file is, and the command that makes a table of it."""
    if way is None:
        return f"{what}, not a table"
    out = str(path.with_suffix(""))
    suffix = next((suffix for word, suffix in _SUFFIXES.items() if word in way), ".csv")
    if out + suffix == str(path):
        out += "-table"
    code = way.split("(")[0].startswith(("pandas", "polars", "import"))
    quote = json.dumps if code else shlex.quote
    text = way.replace("{path}", quote(str(path))).replace("{out}", quote(out + suffix))
    if code and not text.startswith("import"):
        text = f"import {text.split('.')[0]}; {text}"
    return f"{what}; make a table of it: " + (f"python -c {shlex.quote(text)}" if code else text)


_SUFFIXES = {"parquet": ".parquet", "numpy.save": ".npy", "mv ": ".npy"}
