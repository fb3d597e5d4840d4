"""Memory of exact vectors of several types: what is predicted beside what buffers and chunks took."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import pool as pool_module
from support.cgroups import give_memory
from support.messages import line_with
from support.runs import config_for
from support.typed_graphs import lay_out_types, random_typed_graph

import gsplit
from gsplit.data import open_layout
from gsplit.device.precision import Precision
from gsplit.engine.dry import LiveBytes
from gsplit.engine.evaluation.evaluation_memory import buffer_bytes
from gsplit.engine.evaluation.typed_exact import TypedExactLevels
from gsplit.engine.evaluation.typed_memory import TypedLevels
from gsplit.engine.typed.loader import TypedSplitLoader
from gsplit.errors import InputError
from gsplit.launch.resolve import resolve
from gsplit.nn import RGAT, RGCN, UntypedSAGE
from gsplit.sampling import reach_of

FAN_OUTS = [[2, 2, 0, 2, 2, 2], [2, 0, 2, 2, 2, 2], [2, 2, 2, 2, 0, 2]]
HIDDEN = 64
PRECISIONS = {"64": Precision.named("64"), "bf16-mixed": Precision.named("bf16-mixed")}


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """Of some hundred vertices a type, or memory of small tensors would count most."""
    folder, graph = tmp_path_factory.mktemp("typed"), random_typed_graph(4, 6, seed=38, vertices=900)
    return lambda parts: lay_out_types(graph, folder, parts=parts)


def model_of(layout, model=RGCN, **options):
    schema = layout.graph.schema
    widths = [0 if rows is None else rows.shape[1] for rows in layout.graph.features_by_type]
    reach = reach_of([schema.ends(r) for r in range(len(schema.relations))], FAN_OUTS, layout.graph.target)
    torch.manual_seed(1)
    return model(widths, HIDDEN, layout.graph.num_classes, reach, **options)


def levels_of(member, layout, model, precision, max_edges):
    """Exact levels in buffers that are empty."""
    buffers = pool_module.SHARED.levels
    for buffer in buffers:
        member.barrier()
        if member.rank == 0:
            buffer.clear()
        member.barrier()
    loader = TypedSplitLoader(layout, dtype=precision.dtype, row_dtype=precision.rows)
    return TypedExactLevels(layout, member, loader, buffers, precision=precision, threads=1, max_edges=max_edges)


def bytes_taken(member, path, ids, precision, options, type_, level, max_edges):
    """Bytes of the two buffers, and the most that tensors took at a time."""
    layout = open_layout(path, typed=True)
    model = model_of(layout, **options).to(precision.dtype)
    levels = levels_of(member, layout, model, precision, max_edges)
    own = levels.own(ids, type_)
    with LiveBytes("cpu") as live:
        for _ in levels.vectors(model, own, level, type_):
            pass
    return [buffer.num_bytes for buffer in pool_module.SHARED.levels], live.peak


ASKED = {"all": slice(None), "few": slice(3, 7)}


@pytest.mark.cases(5)
@pytest.mark.parametrize(
    "options",
    [{}, {"input_projection": False, "norm": "layer"}, {"model": RGAT, "heads": 4}, {"model": UntypedSAGE}],
    ids=["projection", "plain", "rgat", "untyped"],
)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("which", ASKED)
@pytest.mark.parametrize(("world", "level", "type_"), [(1, 3, 0), (3, 3, 0), (2, 2, 1)])
def test_buffers_and_chunks_take_what_is_predicted(pool, typed, world, level, type_, which, precision, options):
    layout, kind = typed(world), PRECISIONS[precision]
    ids = np.arange(layout.graph.schema.types[type_].num_vertices)[ASKED[which]]
    model = model_of(layout, **options)
    levels = TypedLevels(layout, model, level, type_)
    rows = levels.needed(ids)
    assert all(few <= most for few, most in zip(rows, levels.most(), strict=True))
    cast = 0 if kind.autocast is None else sum(p.numel() for p in model.parameters()) * 2  # weights in bfloat16
    for max_edges in (300, 1 << 22):
        found = pool.run(world, bytes_taken, layout.path, ids, kind, options, type_, level, max_edges)
        predicted, taken = buffer_bytes(rows, levels.widths, kind), found[0][0]
        assert list(predicted) == pytest.approx(taken, rel=0.05)
        assert sum(taken) > 0
        peak, chunk = max(peak for _, peak in found), levels.chunk_bytes(kind, world, max_edges)
        assert peak <= chunk + cast + 32 * 512  # small tensors are rounded up
    if which == "all":
        assert chunk <= 3 * peak


def test_too_little_memory_is_said_before_anything_is_started(typed, tmp_path, monkeypatch):
    layout = typed(2)
    flags = {"model": "rgcn", "train_features": 4, "hidden": 512, "fan_out": (2, 2, 2), "gpus": 2}
    config = config_for(layout.path, tmp_path / "run", **flags)
    levels = TypedLevels(layout, resolve(config).new_model())
    rows = levels.needed(layout.graph.valid_idx)  # as many as of the test vertices
    kind = Precision.named("32")
    needed = sum(buffer_bytes(rows, levels.widths, kind)) + 2 * levels.chunk_bytes(kind, 2)
    give_memory(monkeypatch, tmp_path, needed + (100 << 10))
    resolve(config)
    give_memory(monkeypatch, tmp_path, needed - (100 << 10))
    with pytest.raises(InputError, match=line_with("# MiB, rows of 512 numbers, --evaluate sampled")):
        gsplit.train(config=config)
    assert not (tmp_path / "run").exists()
    resolve(replace(config, evaluate="sampled"))
