"""Which browser the tests take, and that none is no fault."""

from __future__ import annotations

import io
import sys
import tarfile

import brotli
import pytest

from tools import browser


def test_the_named_one_then_the_machines_then_the_fetched_one(tmp_path, monkeypatch):
    monkeypatch.delenv(browser.NAMED, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert browser.find(tmp_path / "fetched") is None
    assert "no npm" in browser.fetch(tmp_path / "fetched")
    browser.unpack(package(), tmp_path / "fetched")
    found = browser.find(tmp_path / "fetched")
    assert found.path == str(tmp_path / "fetched" / "chromium")
    assert (tmp_path / "fetched" / "lib" / "libnss3.so").read_bytes() == b"nss"
    assert found.environment["LD_LIBRARY_PATH"] == str(tmp_path / "fetched" / "lib")
    (tmp_path / "google-chrome").symlink_to(sys.executable)
    assert browser.find(tmp_path / "fetched") == browser.Browser(str(tmp_path / "google-chrome"))
    monkeypatch.setenv(browser.NAMED, sys.executable)
    assert browser.find() == browser.Browser(sys.executable)
    monkeypatch.setenv(browser.NAMED, "no-such-program")
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        browser.find()


def archive(**files):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return held.getvalue()


def package():
    """What npm would fetch, but small."""
    files = {
        "al2023.tar.br": archive(**{"lib/libnss3.so": b"nss"}),
        "fonts.tar.br": archive(**{"fonts/a.ttf": b"a"}),
        "chromium.br": b"#!/bin/sh\n",
    }
    return archive(**{f"package/bin/{name}": brotli.compress(content) for name, content in files.items()})
