"""Saved states come back as they were, whole or not at all, and nothing is unpickled."""

from __future__ import annotations

import os
import pickle

import pytest
import torch
from support.messages import line_with

from gsplit.errors import InputError
from gsplit.runs import checkpoint

ABOUT = {
    "epoch": 3,
    "batch": 0,
    "ahead": [],
    "trainers": 2,
    "store_checksum": "",
    "layout_checksum": "",
    "signature": {},
}


@pytest.fixture
def saved(tmp_path):
    checkpoint.save_state(tmp_path, "checkpoint", {"w": torch.arange(5.0), "n": {"epoch": 3}}, ABOUT)
    return tmp_path


def test_round_trip(saved):
    state = checkpoint.load_state(saved, "checkpoint")
    assert torch.equal(state["w"], torch.arange(5.0))
    assert state["n"] == {"epoch": 3}
    assert checkpoint.describe_state(saved, "checkpoint")["epoch"] == 3


def test_the_newer_state_replaces_the_older(saved):
    checkpoint.save_state(saved, "checkpoint", {"w": torch.ones(2)}, {**ABOUT, "epoch": 4})
    assert checkpoint.load_state(saved, "checkpoint")["w"].tolist() == [1, 1]
    assert len(list(saved.glob("*.pt"))) == 1


def test_a_crash_before_the_json_leaves_the_older_state(saved, monkeypatch):
    replace_file = checkpoint.replace_file

    def crash(path, content):
        if path.suffix == ".json":
            raise KeyboardInterrupt
        replace_file(path, content)

    monkeypatch.setattr(checkpoint, "replace_file", crash)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save_state(saved, "checkpoint", {"w": torch.ones(2)}, {**ABOUT, "epoch": 4})
    assert checkpoint.load_state(saved, "checkpoint")["n"] == {"epoch": 3}


@pytest.mark.parametrize("at", [0, 100, -1])
def test_one_flipped_bit_is_found(saved, at):
    (file,) = saved.glob("*.pt")
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=line_with(f"{file.name}, SHA-256")):
        checkpoint.load_state(saved, "checkpoint")


def test_missing_pieces_are_named(saved):
    with pytest.raises(InputError, match=line_with("model.json")):
        checkpoint.load_state(saved, "model")
    (file,) = saved.glob("*.pt")
    file.unlink()
    with pytest.raises(InputError, match=line_with(file.name)):
        checkpoint.load_state(saved, "checkpoint")
    (saved / "checkpoint.json").write_text("{")
    with pytest.raises(InputError, match=line_with("checkpoint.json")):
        checkpoint.load_state(saved, "checkpoint")


class Evil:
    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def test_a_pickle_with_the_right_checksum_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch, "save", lambda state, buffer: pickle.dump(state, buffer))
    checkpoint.save_state(tmp_path, "checkpoint", {"evil": Evil()}, ABOUT)
    with pytest.raises(InputError, match=line_with("checkpoint-*.pt")):
        checkpoint.load_state(tmp_path, "checkpoint")
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize("key", list(ABOUT))
def test_a_description_without_a_key_is_damaged(tmp_path, key):
    for about in ({k: v for k, v in ABOUT.items() if k != key}, {**ABOUT, key: None}):
        checkpoint.save_state(tmp_path, "checkpoint", {}, about)
        with pytest.raises(InputError, match=line_with("checkpoint.json", key)):
            checkpoint.describe_state(tmp_path, "checkpoint")


def test_models_are_compared_by_what_they_need():
    one = {"model": "sage", "hidden": 16, "num_layers": 2}
    checkpoint.check_same_model("run", one, dict(one))
    with pytest.raises(InputError, match=line_with("hidden, 16, 32")):
        checkpoint.check_same_model("run", one, {**one, "hidden": 32})
