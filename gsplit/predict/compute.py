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
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gsplit.data import open_layout
from gsplit.device.precision import Precision
from gsplit.engine.evaluation import forward_to
from gsplit.engine.evaluation.vectors import Vectors
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.objective import objective_of
from gsplit.engine.objectives.regression import missing_where_not_finite
from gsplit.engine.own_ranges import own_range
from gsplit.engine.rows.loading import host_rows
from gsplit.engine.rows.shared import Shared
from gsplit.errors import InputError
from gsplit.models import prepared
from gsplit.nn import BatchComm, ExchangeCounters
from gsplit.parallel import Member, max_over_trainers, trainer_grid, with_checker
from gsplit.parallel.checker import Step
from gsplit.parallel.join import joined
from gsplit.predict.output import FEATURES, VALUES, VERTICES, create_values
from gsplit.predict.pairs import PairSpec, write_share
from gsplit.predict.vertices import Request
from gsplit.sampling import sampler_of, split_offsets

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
    trained_features: bool = False
    """True where the folder also holds features that were trained, which stand for the graph's."""
    fan_out: tuple[int, ...]
    """One for each layer; empty for all neighbours, exactly."""
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
    layout = open_layout(spec.layout, trusted=True)
    if spec.trained_features:
        trained = np.load(spec.folder / FEATURES, mmap_mode="r")
        layout = replace(layout, graph=replace(layout.graph, features=trained))
    request = Request(np.load(spec.folder / VERTICES), layout.permutation)
    rows = host_rows(layout, member, spec.copied_dtype, spec.shared.features)
    model, needs = prepared.prepare(pickle.loads(spec.pickled_model))
    model.to(member.device, spec.precision.dtype).eval()
    loader = SplitLoader.from_host(
        layout,
        needs,
        device=member.device,
        dtype=spec.precision.dtype,
        row_dtype=spec.precision.rows,
        rows=rows,
        normalize=spec.normalize_features,
        threads=spec.threads,
    )
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
        chunks = vectors_of.vectors(model, request.of_part(*own_range(layout, member)), spec.level)
    if spec.of_pairs is not None:
        where = vectors_of, chunks, request, layout
        write_share(member, spec.of_pairs, spec.folder, *where, level=spec.level, threads=spec.threads)
        return
    convert = objective.predict if spec.classes else missing_where_not_finite
    chunks = ((ids, convert(vectors)) for ids, vectors in chunks)
    _write(chunks, request, member, spec)


@torch.no_grad()
def _sampled(model: nn.Module, member: Member, loader: SplitLoader, request: Request, spec: PredictSpec) -> Chunks:
    """One mini-batch after the other of all vertices asked for, each split over the trainers.

    They are cut in the order of the request and draws go by global id (law 1), so that neither the layout nor the
    number of trainers changes a vector. Layer l draws the same number of neighbours whichever level is wanted.
    """
    sampler = sampler_of(
        loader.layout,
        split_offsets(loader.layout, member.world),
        fan_outs=spec.fan_out[spec.num_layers - spec.level :],
        seed=spec.seed,
        edge_ids=loader.edges.weights,
    )
    member = with_checker(member.on(trainer_grid(member.world)), spec.shared.checker)
    targets = request.in_order()
    for batch, begin in enumerate(range(0, len(targets), spec.batch_size)):
        sampler.sample(targets[begin : begin + spec.batch_size], epoch=0, batch=batch)
        segment = sampler.segment(member.rank)
        comm = BatchComm(member.group, ExchangeCounters(), member.device, checker=member.checker)
        blocks, x = loader.inputs(segment, comm)
        vectors = spec.precision.called(member.device, forward_to, spec.level, spec.num_layers, model, blocks, x)
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
