"""What the loggers of others have in their files: for each name the values by step."""

from __future__ import annotations

import importlib
import json
import struct
from typing import Any

from support.waiting import wait_until

BLOCK = 32768
PATIENCE_S = 30.0


def of_tensorboard(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    return {tag: {event.step: event.value for event in events.Scalars(tag)} for tag in events.Tags()["scalars"]}


def of_mlflow(run):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{run / 'mlflow.db'}")
    found = client.search_runs([client.get_experiment_by_name("gsplit").experiment_id])[0]
    assert found.data.params["hidden"] == "8"
    names = found.data.metrics
    return {name: {m.step: m.value for m in client.get_metric_history(found.info.run_id, name)} for name in names}


def of_wandb(run):
    proto: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
    log = next(run.glob("wandb/offline-run-*/run-*.wandb"))

    def whole():  # another process writes it, and may still be about to
        records = [proto.Record.FromString(data) for data in logged_records(log.read_bytes())]
        return records if any(record.WhichOneof("record_type") == "exit" for record in records) else None

    found: dict = {}
    for record in wait_until(whole, PATIENCE_S, lambda: f"the log has no end: {log}"):
        if record.WhichOneof("record_type") == "history":
            items = {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item}
            for name, value in items.items():
                found.setdefault(name, {})[items.get("epoch", items.get("within/step"))] = value
    return found


def logged_records(data):
    """The records of a log in LevelDB's format, behind a header of 7 bytes.

    Each piece has a checksum (4 bytes), its length (2) and its kind: a whole record, or the first, a middle or the
    last piece of one; none crosses a block, of which less than a piece's header may be left.
    """
    assert data[:4] == b":W&B"
    at, pieces = 7, b""
    while at < len(data):
        left = BLOCK - at % BLOCK
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        pieces += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield pieces
            pieces = b""
