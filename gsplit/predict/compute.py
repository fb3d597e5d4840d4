"""The part of one trainer in predicting: compute the vectors of its vertices, write them into the file of all.

Exactly, level by level (:mod:`gsplit.engine.evaluation`), or, with fan-outs, mini-batch by mini-batch, split over the
trainers as in training.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gsplit.data import Layout, open_layout
from gsplit.device.precision import Precision
from gsplit.engine.evaluation import forward_to
from gsplit.engine.evaluation.vectors import Vectors
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.objective import objective_of
from gsplit.engine.objectives.regression import missing_where_not_finite
from gsplit.engine.own_ranges import own_range
from gsplit.engine.rows.loading import host_rows
from gsplit.engine.rows.shared import Shared
from gsplit.engine.typed.loader import TypedSplitLoader
from gsplit.engine.typed.trained import KeptRows
from gsplit.errors import InputError
from gsplit.models import prepared
from gsplit.models.prepared import Needs
from gsplit.nn import BatchComm, ExchangeCounters
from gsplit.parallel import Member, max_over_trainers, trainer_grid, with_checker
from gsplit.parallel.checker import Step
from gsplit.parallel.join import joined
from gsplit.predict.output import FEATURES, VALUES, VERTICES, create_values
from gsplit.predict.pairs import PairSpec, write_share
from gsplit.predict.vertices import Request
from gsplit.sampling import Neighbours, TypedSampler, sampler_of, split_offsets, typed_sampler_of, within
from gsplit.sampling.rule import FanOutOf

Chunks = Iterator[tuple[NDArray[np.int64], Tensor]]
"""Layout ids [n] of this trainer's vertices, and their vectors [n, width]."""


@dataclass(frozen=True, kw_only=True)
class PredictSpec:
    """The task of a trainer: everything is decided and checked before it starts."""

    layout: Path
    folder: Path
    """Holds what was asked for, and gets the values."""
    world: int
    device_type: str
    threads: int
    port: int
    pickled_model: bytes
    shared: Shared
    classes: bool
    """Make classes of the vectors, which are logits then."""
    multi_label: bool
    level: int
    num_layers: int
    precision: Precision
    normalize_features: bool
    copied_dtype: torch.dtype | None
    """Type in which the run kept its feature rows, where that is not as they are stored."""
    type_: int = 0
    """Number of the type of the vertices asked for."""
    trained_types: tuple[int, ...] = ()
    """Numbers of the types whose features were trained: the folder also holds these, which stand for the graph's."""
    fan_out: tuple[int, ...]
    """One for each layer; empty for all neighbours, exactly."""
    fan_out_of: FanOutOf = ()
    """The relations with others, by number."""
    batch_size: int
    seed: int
    of_pairs: PairSpec | None = None
    """What is predicted of pairs, in place of vertices."""


def run(rank: int, spec: PredictSpec) -> None:
    """The life of one trainer process."""
    with joined(rank, spec.world, spec.port, spec.device_type, spec.threads) as member:
        predict_share(member, spec)


def predict_share(member: Member, spec: PredictSpec) -> None:
    """Compute this trainer's share and write its rows of ``values.npy``; all trainers make the call."""
    layout = open_layout(spec.layout, trusted=True, typed=True)
    trained = np.load(spec.folder / FEATURES, mmap_mode="r") if spec.trained_types else None
    model, needs = prepared.prepare(pickle.loads(spec.pickled_model))
    model.to(member.device, spec.precision.dtype).eval()
    loader = _loader(layout, member, needs, trained, spec)
    layout = loader.layout
    request = Request(np.load(spec.folder / VERTICES), layout.permutations[spec.type_])
    objective = objective_of("labels" if spec.multi_label else "classes")
    vectors_of = Vectors(
        layout,
        member,
        loader,
        spec.shared.levels,
        num_layers=spec.num_layers,
        precision=spec.precision,
        threads=spec.threads,
    )
    if spec.fan_out:
        chunks = _sampled(model, member, loader, request, spec)
    else:
        own = request.of_part(*own_range(layout, member, spec.type_))
        chunks = vectors_of.vectors(model, own, spec.level, spec.type_)
    if spec.of_pairs is not None:
        where = vectors_of, chunks, request, layout
        write_share(member, spec.of_pairs, spec.folder, *where, level=spec.level, threads=spec.threads)
        return
    convert = objective.predict if spec.classes else missing_where_not_finite
    chunks = ((ids, convert(vectors)) for ids, vectors in chunks)
    _write(chunks, request, member, spec)


def _loader(
    layout: Layout, member: Member, needs: Needs, trained: NDArray[Any] | None, spec: PredictSpec
) -> SplitLoader | TypedSplitLoader:
    """A loader of splits.

    Features that were trained stand for the graph's: [N, D] by layout id, or of several types as
    :class:`~gsplit.engine.typed.trained.KeptRows` takes them.
    """
    common: dict[str, Any] = {
        "device": member.device,
        "dtype": spec.precision.dtype,
        "row_dtype": spec.precision.rows,
        "normalize": spec.normalize_features,
        "threads": spec.threads,
    }
    if layout.graph.schema.is_typed:
        kept = None if trained is None else KeptRows(layout, spec.trained_types, trained)
        return TypedSplitLoader(layout, weights=needs["weights"], trained=kept, **common)
    if trained is not None:
        layout = replace(layout, graph=replace(layout.graph, features=trained))
    rows = host_rows(layout, member, spec.copied_dtype, spec.shared.features)
    return SplitLoader.from_host(layout, needs, rows=rows, **common)


def _sampler(model: Any, loader: SplitLoader | TypedSplitLoader, world: int, spec: PredictSpec) -> TypedSampler:
    """What draws the neighbours of the vertices asked for, by the relations that the model has weights for."""
    layout, left_out = loader.layout, spec.num_layers - spec.level
    fan_outs = spec.fan_out[left_out:]
    options: dict[str, Any] = {"seed": spec.seed, "edge_ids": loader.weights}
    where = layout, split_offsets(layout, world)
    if isinstance(loader, SplitLoader):
        return sampler_of(*where, fan_outs=fan_outs, **options)
    rule = Neighbours(fan_out=spec.fan_out, fan_out_of=spec.fan_out_of)
    by_relation = rule.fan_outs(len(layout.graph.adjacencies))[left_out:]
    drawn = within(model.reach, by_relation, spec.level)
    return typed_sampler_of(*where, fan_outs=drawn, target_type=spec.type_, **options)


@torch.no_grad()
def _sampled(
    model: nn.Module, member: Member, loader: SplitLoader | TypedSplitLoader, request: Request, spec: PredictSpec
) -> Chunks:
    """One mini-batch after the other of all vertices asked for, each split over the trainers.

    They are cut in the order of the request and draws go by global id (law 1), so that neither the layout nor the
    number of trainers changes a vector. Layer l draws the same number of neighbours whichever level is wanted.
    """
    sampler = _sampler(model, loader, member.world, spec)
    member = with_checker(member.on(trainer_grid(member.world)), spec.shared.checker)

    def forward(blocks: Any, x: Any) -> Tensor:
        out: Any = forward_to(spec.level, spec.num_layers, model, blocks, x)
        return cast("Tensor", out if isinstance(out, Tensor) else out[spec.type_])

    targets = request.in_order()
    for batch, begin in enumerate(range(0, len(targets), spec.batch_size)):
        sampler.sample(targets[begin : begin + spec.batch_size], epoch=0, batch=batch)
        segment = sampler.segment(member.rank)
        comm = BatchComm(member.group, ExchangeCounters(), member.device, checker=member.checker)
        blocks, x = loader.inputs(segment, comm)
        vectors = spec.precision.called(member.device, forward, blocks, x)
        if member.checker is not None:
            member.checker.enter(Step.END)
        yield segment.targets, vectors


def _write(chunks: Chunks, request: Request, member: Member, spec: PredictSpec) -> None:
    """Each trainer fills its own rows of a file that trainer 0 makes; nothing is gathered."""
    first = next(chunks, None)
    # Only who has a vertex knows how wide the vectors are; a class is one number, without a width.
    own_width = 0 if first is None or first[1].ndim == 1 else first[1].shape[1]
    width = max_over_trainers(own_width, member)
    shape = (request.num_rows, width) if width else (request.num_rows,)
    path = spec.folder / VALUES
    if member.rank == 0:
        create_values(path, shape, _numpy_dtype(spec))
    member.barrier()
    values = np.load(path, mmap_mode="r+")
    for ids, vectors in itertools.chain([] if first is None else [first], chunks):
        if vectors.shape != (len(ids), *shape[1:]):
            raise InputError(
                f"the model gave vectors of shape {tuple(vectors.shape)} for {len(ids)} vertices, not "
                f"{(len(ids), *shape[1:])}"
            )
        rows, positions = request.rows(ids)
        values[rows] = vectors.cpu().numpy()[positions]
    values.flush()


def _numpy_dtype(spec: PredictSpec) -> Any:
    if spec.classes:
        return np.uint8 if spec.multi_label else np.int64
    return torch.empty(0, dtype=spec.precision.dtype).numpy().dtype
