"""Training without a layout names those in reach, the newest first, or the commands that make one."""

from __future__ import annotations

import os
import sys

import pytest
from support.messages import says

from gsplit import TrainConfig, cli
from gsplit.errors import InputError
from gsplit.launch import in_reach
from gsplit.launch.in_reach import layouts_in_reach
from gsplit.launch.resolve import resolve
from gsplit.train.__main__ import command


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(here, *names):
    """Folders that look like layouts, each newer than the one before."""
    for age, name in enumerate(names):
        (here / name).mkdir(parents=True)
        (here / name / "layout.json").write_text("{}")
        os.utime(here / name / "layout.json", (1000 + age, 1000 + age))


def said(**flags):
    with pytest.raises(InputError) as caught:
        resolve(TrainConfig(**flags))
    return str(caught.value)


def test_the_newest_comes_first(here):
    make(here, "work/a/layout", "z", "work/b")
    (here / "work" / "c").mkdir()
    assert "work/b, z, work/a/layout" in said(gpus=4)


def test_of_many_some_are_named(here):
    make(here, *map(str, range(8)))
    assert "7, 6, 5, 4, 3 and 3 more" in said()


@pytest.mark.parametrize(("flags", "parts"), [({}, 4), ({"gpus": 2}, 2)])
def test_without_any_the_two_commands_are_named(here, flags, parts):
    says(said(**flags), f"gsplit partition graph --parts {parts} --out layout")


def test_the_look_is_bounded_and_stays_below(here, monkeypatch):
    make(here, ".hidden/layout", "1/2/3/4/5/deep", "there/inner", "there/inner/of/another")
    (here / "link").symlink_to(here / "there")
    (here / "around").symlink_to(here)
    assert list(map(str, layouts_in_reach())) == ["there/inner"]
    monkeypatch.setattr(in_reach, "MOST_FOLDERS", 2)
    assert layouts_in_reach() == []


def test_a_folder_that_nobody_may_read_is_passed_over(here, monkeypatch):
    make(here, "a", "closed/b")
    scan = os.scandir

    def refusing(folder):
        if str(folder) == "closed":
            raise PermissionError(13, "no")
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    assert list(map(str, layouts_in_reach())) == ["a"]


def test_the_command_says_it_in_one_line(here, monkeypatch, capsys):
    make(here, "layout")
    monkeypatch.setattr(sys, "argv", ["gsplit train", "--gpus", "4"])
    with pytest.raises(SystemExit) as end:
        cli.main(command)
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    says(line, "error:, layout")
