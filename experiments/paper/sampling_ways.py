"""GSplit's and DGL's samplers side by side: what each produces of the same targets, timed the same way, in turn.

A way draws what one training iteration needs. ``produces`` says in which shape: a *mini-batch* (not split),
*splits* (a mini-batch, split, still in the sampler's memory), *segments* (the splits written, one piece of memory a
trainer), or *micro-batches* (one a trainer, which data parallelism needs).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from experiments.baselines.dgl_sampling import FORMS, DGLSampler, Form, dgl_graph, drawn, fault_of
from experiments.shared.datasets import Dataset
from gsplit.sampling import EpochPlan, MiniBatchSampler

VertexOrder = Literal["layout", "store"]
Produces = Literal["mini-batch", "splits", "segments", "micro-batches"]
CUTS: tuple[tuple[Produces, bool], ...] = (("micro-batches", True), ("mini-batch", False))
"""What DGL's sampler is timed with, and whether it draws each trainer's targets by themselves."""
VERTEX_ORDERS: tuple[VertexOrder, ...] = ("store", "layout")


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """The targets of one training iteration, the same vertices for every way."""

    epoch: int
    batch: int
    targets: dict[VertexOrder, NDArray[np.int64]]
    """[B] ids of each order."""
    parts: int

    def micro_batches(self, order: VertexOrder) -> list[NDArray[np.int64]]:
        """[P] arrays of B / P targets."""
        return np.array_split(self.targets[order], self.parts)


class Clock:
    """Sums up the seconds of its ``with`` blocks: of the clock on the wall, and of this process on all cores."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0

    def __enter__(self) -> None:
        self._cpu_s, self._wall_s = time.process_time(), time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.wall_s += time.perf_counter() - self._wall_s
        self.cpu_s += time.process_time() - self._cpu_s


@dataclass(kw_only=True)
class Way:
    """One way to produce an iteration, and what it took in each round."""

    system: Literal["GSplit", "DGL"]
    form: str
    """Form of DGL's sampler; empty for ours."""
    vertex_order: VertexOrder
    produces: Produces
    run: Callable[[Iteration, Clock], tuple[int, int]]
    """Does the work with the clock running, then counts: edges and inputs (level-0 vertices)."""
    edges: list[int] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def round(self, iteration: Iteration) -> None:
        clock = Clock()
        edges, inputs = self.run(iteration, clock)
        self.edges.append(edges)
        self.inputs.append(inputs)
        self.wall_s.append(clock.wall_s)
        self.cpu_s.append(clock.cpu_s)


def iterations(dataset: Dataset, batch_size: int, seed: int) -> Iterator[Iteration]:
    """Whole mini-batches, one epoch after the other, without end."""
    layout = dataset.layout
    permutation = np.asarray(layout.permutation)
    plan = EpochPlan(layout.graph.train_idx, permutation, batch_size, seed)
    epoch = 0
    while True:
        for batch, targets in plan.batches(epoch):
            if len(targets) == batch_size:
                yield Iteration(
                    epoch=epoch,
                    batch=batch,
                    targets={"layout": targets, "store": permutation[targets]},
                    parts=layout.parts,
                )
        epoch += 1


class Ours:
    """Our sampler in both orders. The layout's arrays are mapped, as in training; the store's are in memory."""

    def __init__(self, dataset: Dataset, fan_outs: Sequence[int], seed: int) -> None:
        layout = dataset.layout
        whole = [0, layout.graph.num_vertices]
        named: dict[str, Any] = {"fan_outs": fan_outs, "seed": seed}
        mapped = (layout.graph.indptr, layout.graph.indices)
        self._unsplit: dict[VertexOrder, MiniBatchSampler] = {
            "layout": MiniBatchSampler(*mapped, whole, global_ids=layout.permutation, **named),
            "store": MiniBatchSampler(dataset.indptr, dataset.indices, whole, **named),
        }
        self._split = MiniBatchSampler(*mapped, layout.offsets, global_ids=layout.permutation, **named)

    def ways(self) -> list[Way]:
        """New ones, without a round; what a bar compares stands side by side, so that it meets the same noise."""
        made: list[tuple[VertexOrder, Produces, Callable[[Iteration, Clock], tuple[int, int]]]] = [
            ("store", "mini-batch", lambda *given: self._mini_batch("store", *given)),
            ("layout", "micro-batches", self._micro_batches),
            ("layout", "segments", self._segments),
            ("layout", "mini-batch", lambda *given: self._mini_batch("layout", *given)),
            ("layout", "splits", self._splits),
        ]
        return [
            Way(system="GSplit", form="", vertex_order=order, produces=produces, run=run)
            for order, produces, run in made
        ]

    def _mini_batch(self, order: VertexOrder, iteration: Iteration, clock: Clock) -> tuple[int, int]:
        return _sample(self._unsplit[order], iteration, iteration.targets[order], 0, clock)

    def _splits(self, iteration: Iteration, clock: Clock) -> tuple[int, int]:
        return _sample(self._split, iteration, iteration.targets["layout"], 0, clock)

    def _segments(self, iteration: Iteration, clock: Clock) -> tuple[int, int]:
        with clock:
            self._split.sample(iteration.targets["layout"], epoch=iteration.epoch, batch=iteration.batch)
            segments = [self._split.segment(rank) for rank in range(self._split.parts)]
        return sum(s.num_edges for s in segments), sum(s.level_sizes[0] for s in segments)

    def _micro_batches(self, iteration: Iteration, clock: Clock) -> tuple[int, int]:
        counts = [
            _sample(self._unsplit["layout"], iteration, targets, micro, clock)
            for micro, targets in enumerate(iteration.micro_batches("layout"))
        ]
        return sum(edges for edges, _ in counts), sum(inputs for _, inputs in counts)


def _sample(
    sampler: MiniBatchSampler, iteration: Iteration, targets: NDArray[np.int64], micro: int, clock: Clock
) -> tuple[int, int]:
    with clock:
        sampler.sample(targets, epoch=iteration.epoch, batch=iteration.batch, micro=micro)
    segments = [sampler.segment(rank) for rank in range(sampler.parts)]
    return sum(s.num_edges for s in segments), sum(s.level_sizes[0] for s in segments)


class Theirs:
    """DGL's sampler on both orders, in those of ``forms`` whose blocks are valid.

    Raises:
        InputError: where DGL cannot be imported.
    """

    def __init__(self, dataset: Dataset, fan_outs: Sequence[int], forms: Sequence[Form] = FORMS) -> None:
        graph = dataset.layout.graph
        self._fan_outs = tuple(fan_outs)
        self._graphs = {"layout": (graph.indptr, graph.indices), "store": (dataset.indptr, dataset.indices)}
        forms = [form for form in forms if form.fits(graph.num_vertices, graph.num_edges)]
        self._samplers: dict[tuple[Form, VertexOrder], DGLSampler] = {}
        for order in VERTEX_ORDERS:
            graphs = {bits: dgl_graph(*self._graphs[order], bits) for bits in {form.bits for form in forms}}
            for form in forms:
                self._samplers[form, order] = DGLSampler(graphs[form.bits], form, fan_outs)

    def exclude_faulty(self, iteration: Iteration) -> list[dict[str, str]]:
        """Let every form draw two micro-batches and the mini-batch, and drop those with a fault; which and why."""
        excluded = []
        for (form, order), sampler in list(self._samplers.items()):
            for targets in (*iteration.micro_batches(order)[:2], iteration.targets[order]):
                blocks = [drawn(block) for block in sampler.sample(sampler.tensor(targets))]
                fault = fault_of(blocks, targets, *self._graphs[order], self._fan_outs)
                if fault:
                    excluded.append({"form": form.name, "order": order, "fault": fault})
                    del self._samplers[form, order]
                    break
        return excluded

    def ways(self) -> list[Way]:
        """New ones, without a round."""
        return [
            Way(
                system="DGL", form=form.name, vertex_order=order, produces=produces, run=_dgl_run(sampler, order, cut)
            )
            for wanted in VERTEX_ORDERS
            for produces, cut in CUTS
            for (form, order), sampler in self._samplers.items()
            if order == wanted
        ]


def _dgl_run(sampler: DGLSampler, order: VertexOrder, cut: bool) -> Callable[[Iteration, Clock], tuple[int, int]]:
    def run(iteration: Iteration, clock: Clock) -> tuple[int, int]:
        edges = inputs = 0
        for targets in iteration.micro_batches(order) if cut else [iteration.targets[order]]:
            tensor = sampler.tensor(targets)
            with clock:
                blocks = sampler.sample(tensor)
            edges += sum(block.num_edges() for block in blocks)
            inputs += blocks[0].num_src_nodes()
            del blocks  # not on the clock, and before the next ones need memory
        return edges, inputs

    return run
