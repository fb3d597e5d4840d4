"""A user's mistake that a script does not catch is one line; all else keeps its traceback."""

from __future__ import annotations

import sys

import pytest

from gsplit.data import open_store
from gsplit.errors import InputError, ProcessDied, one_line_errors


@pytest.fixture
def raised(tmp_path):
    with pytest.raises(InputError) as caught:
        open_store(tmp_path / "nowhere")
    return caught.value


def test_the_line_names_the_place_in_the_script(raised, monkeypatch, capsys):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    one_line_errors()
    sys.excepthook(InputError, raised, raised.__traceback__)
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.endswith(f" (test_errors.py, line {raised.__traceback__.tb_lineno})\n")
    assert err.count("\n") == 1


def test_other_errors_keep_their_traceback(monkeypatch, capsys):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    one_line_errors()
    try:
        raise ValueError("not ours")
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
    assert capsys.readouterr().err.startswith("Traceback")


def test_a_process_of_ours_that_died_is_told_without_where_we_waited(monkeypatch, capsys):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    one_line_errors()
    for message in ("trainer 1 (pid 7) was ended by SIGKILL", "trainer 1 failed:\nTraceback\n  its own"):
        try:
            raise ProcessDied(message)
        except ProcessDied as error:
            sys.excepthook(ProcessDied, error, error.__traceback__)
            line, *rest = message.splitlines()
            place = f" (test_errors.py, line {error.__traceback__.tb_lineno})"
        assert capsys.readouterr().err.splitlines() == [f"error: {line}{place}", *rest]


def test_a_program_keeps_a_hook_of_its_own(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", print)
    one_line_errors()
    assert sys.excepthook is print


def test_notebooks_show_one_line(raised):
    (line,) = raised._render_traceback_()
    assert line == f"error: {raised}"


def interrupted(call):
    try:
        call()
    except KeyboardInterrupt as error:
        sys.excepthook(KeyboardInterrupt, error, error.__traceback__)
        return error.__traceback__.tb_lineno


def test_ctrl_c_in_a_call_of_ours_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    one_line_errors()

    def stop(*_):
        raise KeyboardInterrupt

    line = interrupted(stop)
    assert capsys.readouterr().err.startswith("Traceback")  # not in a call of ours
    monkeypatch.setattr("gsplit.data.opened.read_description", stop)
    assert interrupted(lambda: open_store(tmp_path)) == line
    assert capsys.readouterr().err.startswith("interrupted (test_errors.py, line ")
