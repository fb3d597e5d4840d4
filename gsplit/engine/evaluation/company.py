"""Does a model give a vertex the same alone and in the company of others?

What can be split depends, for each vertex, on its in-edges, its sources and its own row alone; then it does not
matter which trainer computes it, nor with which others. Layers that are known to need more are refused by name
(:mod:`gsplit.nn.adapters.refuse`). What no list holds (an aggregation or a convolution of the user's,
``x - x.mean(0)``, a virtual node, ``x / x.abs().max()``) is found here, before a run: a few vertices of a small
graph, with features of the graph of the run, are computed two at a time and then all together. What only shows in
training, or between trainers, ``--check-model`` finds.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from gsplit.data import GraphArrays, Layout
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.dropout_off import DropoutOff
from gsplit.engine.inputs import SplitLoader
from gsplit.errors import InputError
from gsplit.models import prepared
from gsplit.models.registry import OURS
from gsplit.sampling import sampler_of

logger = logging.getLogger(__name__)

PLACES = 4
"""Places of the small graph that have no vertex in common; at each two neighbouring vertices are computed."""
REACH = 6
"""How far apart a vertex and its in-neighbours are at most, so that neighbourhoods stay where they are."""
MOST_NEIGHBOURS = 9
TOLERANCE = 1e-4
"""Difference that may be rounding, as a share of the largest number."""
NOISE = 0.1
"""How far parameters are moved once, for some begin at zero and hide what they multiply."""


def check_company(
    model: nn.Module, layout: Layout, *, layers: int, precision: Precision, width: int | None = None
) -> None:
    """Refuse a model that gives a vertex something else alone than together with others.

    Args:
        model: that a run trains, or has trained; it stays as it is. One of ours is known and not tried.
        layout: of the run, whose features and weights the small graph takes.
        layers: of the model.
        precision: in which the run computes.
        width: of features that are trained in the place of the graph's; None: the graph's.

    Raises:
        InputError: in one line, naming what differs.
    """
    if type(model) in OURS:
        return
    name = type(model).__name__
    with _one_thread(), torch.random.fork_rng(devices=[]), torch.no_grad(), DropoutOff():
        torch.manual_seed(0)
        tried = small_layout(layout, layers, width)
        try:
            found = _compare(model, tried, layers, precision)
            if found is not None and precision.dtype != torch.float64:
                found = _in_float64(model, tried, layers, found)
        except InputError:
            raise
        except Exception as error:  # whatever a model raises on a graph that is not its own; the run will show
            logger.warning(
                "the model %s could not be tried before the run, alone and in company: %s: %s",
                name,
                type(error).__name__,
                " ".join(str(error).split()),
            )
            return
    if found is not None:
        raise InputError(
            f"the model {name} cannot be split: {found}; an output must depend on its in-edges, its sources and its "
            "own row alone, and not on chance but for dropout (--no-check-model leaves this check out)"
        )


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Compute by one thread: for so few rows several take longer."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _in_float64(model: nn.Module, layout: Layout, layers: int, found: str) -> str | None:
    """Return what is found where rounding is small; what was found before where a model cannot be computed so."""
    try:
        return _compare(model, layout, layers, Precision.named("64"))
    except Exception:
        return found


def _compare(model: nn.Module, layout: Layout, layers: int, precision: Precision) -> str | None:
    """Return what differs, in words; None for nothing beyond rounding."""
    on_blocks, needs = prepared.prepare(copy.deepcopy(model))
    on_blocks = on_blocks.to(device="cpu", dtype=precision.dtype).eval()
    loader = SplitLoader.from_host(layout, needs, dtype=precision.dtype, row_dtype=precision.rows)
    sampler = sampler_of(layout, fan_outs=[-1] * layers, seed=0, edge_ids=loader.edges.weights)
    pairs = [start + np.arange(2) for start in targets_of(layout, layers)]

    def logits(targets: np.ndarray) -> Tensor:
        sampler.sample(targets, epoch=0, batch=0)
        segment = sampler.segment(0)
        x = loader.features.load(segment.vertices)
        out = precision.called(x.device, on_blocks, loader.whole_blocks(segment), x)
        if len(out) != len(targets):
            raise InputError(f"the model gives {len(out)} rows for {len(targets)} targets")
        return out.double()

    for moved in (False, True):
        if moved:
            for parameter in filter(torch.is_floating_point, on_blocks.parameters()):
                parameter.add_(NOISE * torch.randn_like(parameter))
        together = logits(np.concatenate(pairs))
        scale = float(together.nan_to_num(posinf=0.0, neginf=0.0).abs().max())
        if _difference(logits(np.concatenate(pairs)), together) > TOLERANCE * scale:
            return "its logits of the same vertices are others each time they are computed"
        alone = torch.cat([logits(pair) for pair in pairs])
        difference = _difference(alone, together)
        if difference > TOLERANCE * scale:
            return (
                f"its logits of {len(pairs[0])} vertices differ by up to {difference:.2g} (of {scale:.2g}) when "
                f"{len(together) - len(pairs[0])} others are computed with them"
            )
    return None


def _difference(one: Tensor, other: Tensor) -> float:
    """The largest, where not both are the same infinity or no number; infinite where one alone is."""
    same = (one == other) | (one.isnan() & other.isnan())
    gap = (one - other).abs().nan_to_num(nan=float("inf")).masked_fill(same, 0.0)
    return float(gap.max()) if gap.numel() else 0.0


def targets_of(layout: Layout, layers: int) -> range:
    """The first vertex of each place of a small graph."""
    room = layout.graph.num_vertices // PLACES
    return range(room // 2, layout.graph.num_vertices, room)


def small_layout(layout: Layout, layers: int, width: int | None = None) -> Layout:
    """A layout in memory of a small graph: lists of neighbours of every length, features and weights of the real one.

    Vertices have no in-edges here only if some have none there.
    """
    random, real = np.random.default_rng(0), layout.graph
    n = PLACES * (2 * REACH * layers + 2)
    least = 0 if bool((np.diff(real.indptr) == 0).any()) else 1
    degrees = random.integers(least, MOST_NEIGHBOURS + 1, n)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    near = np.repeat(np.arange(n), degrees) + random.integers(-REACH, REACH + 1, indptr[-1])
    if real.features is None or width is not None:
        features = random.standard_normal((n, width or 1)).astype(np.float32)
    else:
        features = np.asarray(real.features[np.sort(random.integers(0, real.num_vertices, n))])[random.permutation(n)]
    weight = None
    if real.edge_weight is not None and real.num_edges:
        weight = np.asarray(real.edge_weight[np.sort(random.integers(0, real.num_edges, len(near)))])
    none = np.empty(0, np.int64)
    graph = GraphArrays(
        indptr=indptr.astype(np.int64),
        indices=(near % n).astype(real.indices.dtype),
        features=features,
        labels=np.zeros(n, np.int64),
        edge_weight=weight,
        train_idx=none,
        valid_idx=none,
        test_idx=none,
        num_classes=real.num_classes,
    )
    return replace(layout, graph=graph, offsets=np.array([0, n]), permutation=np.arange(n))
