"""``python -m tools.browser``: a headless Chromium for the tests, where the machine has none.

What is there is taken: the one that GSPLIT_BROWSER names, or a Chromium or Chrome in the PATH. Else npm, if there is
one, fetches a package that holds a Chromium with the libraries and the font that it needs: 70 MB, of a fixed version
and checksum, put into the virtual environment. It asks for no root. Without npm tests read the page with a parser.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "@sparticuz/chromium@153.0.0"
INTEGRITY = "sha512-jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
"""SHA-512 of the package in base64, as npm writes it."""
NAMED = "GSPLIT_BROWSER"
"""Environment variable with the path of a browser."""
IN_PATH = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "google-chrome-stable")
FETCHED = Path(sys.prefix) / "browser"
FETCH_S = 600
"""Number of seconds that npm may take."""
FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}/fonts</dir><cachedir>{folder}/font-cache</cachedir></fontconfig>
"""


@dataclass(frozen=True)
class Browser:
    """Where a browser is, and what its environment has besides."""

    path: str
    environment: dict[str, str] = field(default_factory=dict)


def find(fetched: Path = FETCHED) -> Browser | None:
    """The browser to take, or None.

    Raises:
        FileNotFoundError: where GSPLIT_BROWSER names none.
    """
    if named := os.environ.get(NAMED):
        if shutil.which(named) is None:
            raise FileNotFoundError(f"{NAMED} is {named!r}, which is no program")
        return Browser(named)
    for path in filter(None, map(shutil.which, IN_PATH)):
        return Browser(path)
    if (fetched / "chromium").is_file():
        fonts = {"FONTCONFIG_FILE": str(fetched / "fonts.conf")}
        return Browser(str(fetched / "chromium"), {"LD_LIBRARY_PATH": str(fetched / "lib"), **fonts})
    return None


def fetch(fetched: Path = FETCHED) -> str:
    """Fetch one from npm's registry; what was done, or why it was not."""
    npm = shutil.which("npm")
    if platform.machine() != "x86_64" or npm is None:
        return f"none on this machine ({platform.machine()}, {'npm' if npm else 'no npm'})"
    with tempfile.TemporaryDirectory() as folder:
        pack = [npm, "pack", PACKAGE, "--json", "--silent", "--pack-destination", folder]
        try:
            done = subprocess.run(pack, capture_output=True, text=True, timeout=FETCH_S, cwd=folder, check=True)
            content = (Path(folder) / json.loads(done.stdout)[0]["filename"]).read_bytes()
        except (subprocess.SubprocessError, OSError, ValueError, LookupError) as error:
            return f"none: npm does not fetch {PACKAGE} ({type(error).__name__})"
    found = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    if found != INTEGRITY:
        raise SystemExit(f"{PACKAGE} is not what it was: its checksum is {found}")
    unpack(content, fetched)
    return f"{PACKAGE} in {fetched}"


def unpack(content: bytes, fetched: Path) -> None:
    """Unpack the package: the browser, its libraries, its font."""
    import brotli

    shutil.rmtree(fetched, ignore_errors=True)
    fetched.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as package:
        held = {Path(member.name).name: package.extractfile(member) for member in package if member.isfile()}
        for name in ("al2023.tar.br", "fonts.tar.br"):
            with tarfile.open(fileobj=io.BytesIO(brotli.decompress(held[name].read()))) as archive:  # type: ignore[union-attr]
                for member in filter(tarfile.TarInfo.isfile, archive):
                    place = fetched / member.name
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(archive.extractfile(member).read())  # type: ignore[union-attr]
        program = brotli.decompress(held["chromium.br"].read())  # type: ignore[union-attr]
    (fetched / "fonts.conf").write_text(FONTS.format(folder=fetched))
    (fetched / "chromium.part").write_bytes(program)
    (fetched / "chromium.part").chmod(0o755)
    (fetched / "chromium.part").rename(fetched / "chromium")


if __name__ == "__main__":
    there = find()
    print(f"browser of the tests: {fetch() if there is None else there.path}")
