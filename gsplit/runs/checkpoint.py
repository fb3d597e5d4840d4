"""Checkpoints and models on disk: atomic, checksummed, and never unpickled (docs/formats.md, "Run").

A saved state is two files: NAME-<digest>.pt, what ``torch.save`` writes, and NAME.json, which names it together
with its SHA-256. The JSON is replaced last, so it always names a whole file; then the file before is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import torch

from gsplit.errors import InputError
from gsplit.files import read_json, replace_file
from gsplit.runs.starts import writing

CHECKPOINT = "checkpoint"
MODEL = "model"
TRAINED = "trained features"
"""Name of the features that were trained with a model, among its weights; no parameter can have it."""
VERSION = {CHECKPOINT: 2, MODEL: 1}
REQUIRED = {
    CHECKPOINT: {
        "signature": dict,
        "store_checksum": str,
        "layout_checksum": str,
        "trainers": int,
        "epoch": int,
        "batch": int,
        "ahead": list,
    },
    MODEL: {"signature": dict, "epoch": int},
}
"""Keys that the description of each state must have, beside the file it names."""


def save_state(run: Path, name: str, state: dict[str, Any], about: dict[str, Any]) -> None:
    """Write ``state`` (tensors, numbers, strings and containers of them); ``about`` goes into the JSON.

    Raises:
        InputError: where that cannot be done, such as on a full disk; what was saved before is whole then.
    """
    content = _packed(state)
    with writing(run):
        _save(run, name, content, about)


def _save(run: Path, name: str, content: bytes, about: dict[str, Any]) -> None:
    digest = hashlib.sha256(content).hexdigest()
    file = f"{name}-{digest[:16]}.pt"
    new = not (run / file).exists()
    description = {"version": VERSION[name], "file": file, "sha256": digest, **about}
    try:
        replace_file(run / file, content)
        replace_file(run / f"{name}.json", (json.dumps(description, indent=2) + "\n").encode())
    except BaseException:
        if new and not _names(run, name, file):
            (run / file).unlink(missing_ok=True)
        raise
    name_model(run)
    # The state before, and what a process that was killed left half-written.
    for old in [*run.glob(f"{name}-*.pt"), *run.glob(f".{name}*")]:
        if old.name != file:
            old.unlink()


def name_model(run: Path) -> None:
    """Let ``model.pt`` be the file that ``model.json`` names, where there is one: a link, replaced as a whole.

    A file system without links goes without it.
    """
    link = run / f"{MODEL}.pt"
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    with contextlib.suppress(OSError, InputError):
        file = describe_state(run, MODEL)["file"]
        if not link.is_symlink() or os.readlink(link) != file:
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(file)
            temporary.replace(link)


def _names(run: Path, name: str, file: str) -> bool:
    """Return whether the JSON that is there now names a file: it may be replaced, and its folder not be durable."""
    try:
        return bool(describe_state(run, name)["file"] == file)
    except InputError:
        return False


def is_saved(run: Path, name: str, state: dict[str, Any], about: dict[str, Any]) -> bool:
    """Return whether that is what :func:`save_state` wrote last, to the byte, and ``about`` its description."""
    try:
        description = describe_state(run, name)
    except InputError:
        return False
    digest = hashlib.sha256(_packed(state)).hexdigest()
    same = description["sha256"] == digest and all(description.get(key) == value for key, value in about.items())
    return same and (run / description["file"]).is_file()


def whole(run: Path, advice: str = "make room and go on with --resume") -> str:
    """Say in words from what a run that ends without a checkpoint can go on."""
    try:
        after = point(describe_state(run, CHECKPOINT))
    except InputError:
        return "no checkpoint was written before"
    return f"the checkpoint before, after {after}, is whole: {advice} {run}"


def point(about: dict[str, Any]) -> str:
    """Say in words how far a run was, by the description of its checkpoint."""
    return (
        f"mini-batch {about['batch']} of epoch {about['epoch'] + 1}" if about["batch"] else f"epoch {about['epoch']}"
    )


def remove_state(run: Path, name: str) -> None:
    """Forget what was saved under a name; nothing happens where nothing was."""
    with writing(run):
        for path in (run / f"{name}.json", run / f"{name}.pt", *run.glob(f"{name}-*.pt")):
            path.unlink(missing_ok=True)


def _packed(state: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def describe_state(run: Path, name: str) -> dict[str, Any]:
    """The JSON beside a saved state.

    Raises:
        InputError: where there is none, or it is damaged.
    """
    path = run / f"{name}.json"
    try:
        description = read_json(path)
        if description["version"] != VERSION[name]:
            raise InputError(
                f"{path} is of version {description['version']}; this release reads version {VERSION[name]}"
            )
        if Path(description["file"]).name != description["file"] or not isinstance(description["sha256"], str):
            raise TypeError("the file it names")
        for key, kind in REQUIRED[name].items():
            if not isinstance(description[key], kind):
                raise TypeError(f"its {key}")
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{run} has no {name}.json; nothing was saved there") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged: {error}") from None
    return description


def load_state(run: Path, name: str) -> dict[str, Any]:
    """Return what :func:`save_state` wrote, on the CPU; raises what :func:`read_state` does."""
    return read_state(run, name)[1]


def read_state(run: Path, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON beside a saved state, and the state that it describes, on the CPU.

    A run that is still going may replace both at any moment.

    Raises:
        InputError: where it is missing or its checksum is wrong.
    """
    description = describe_state(run, name)
    while True:
        path = run / description["file"]
        try:
            content = path.read_bytes()
            break
        except OSError as error:
            before, description = description, describe_state(run, name)
            if description["file"] == before["file"]:  # else it was replaced in between
                raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != description["sha256"]:
        raise InputError(f"{path} is damaged: its SHA-256 is not the one in {name}.json")
    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        if not isinstance(state, dict):
            raise TypeError(f"it holds a {type(state).__name__}")
    except Exception as error:  # a damaged pickle fails in as many ways as there are opcodes
        cause = (str(error).splitlines() or [type(error).__name__])[0]
        if "Weights only load failed" in cause:  # PyTorch goes on to advise what we never do
            cause = "it does not read as tensors and numbers alone"
        raise InputError(f"{path} cannot be loaded: {cause}") from None
    return description, state


def check_same_model(run: Path, saved: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Compare two signatures (:func:`gsplit.models.registry.signature`).

    Raises:
        InputError: naming the first difference.
    """
    saved, wanted = _flat(saved), _flat(wanted)
    for key in [*wanted, *(key for key in saved if key not in wanted)]:
        if saved.get(key) != wanted.get(key):
            raise InputError(
                f"what is saved in {run} is of another model: {key} is {saved.get(key, 'missing')} there, "
                f"{wanted.get(key, 'missing')} here; use the model it was trained with, or start a new run"
            )


def _flat(signature: dict[str, Any]) -> dict[str, Any]:
    """The shapes of a custom model's parameters as entries of their own."""
    shapes = {f"shape of {name}": shape for name, shape in signature.get("shapes", {}).items()}
    return {**{key: value for key, value in signature.items() if key != "shapes"}, **shapes}
