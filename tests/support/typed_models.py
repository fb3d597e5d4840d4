"""R-GCN on dense matrices, written from the paper and the help of the flags, and steps of ours beside it.

Nothing is shared with ``gsplit.nn`` but the names of the weights. A_r[v, u] counts the edges from u to v that were
drawn by relation r in a layer.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gsplit.engine.typed_blocks import typed_blocks_of
from gsplit.nn import RGCN, BatchComm, ExchangeCounters
from gsplit.nn.norm import follow_comm
from gsplit.parallel import SPLIT, reduce_gradients, trainer_grid, with_checker
from gsplit.sampling import reach_of
from support import pool as pool_module
from support.typed_reference import TypedGraph, drawn_edges, sample_typed, typed_sampler

CPU = torch.device("cpu")
HIDDEN, CLASSES = 6, 3


class Case:
    """A typed graph with features, a split of it, and a model's options; the same on all trainers for one seed."""

    def __init__(self, seed: int, parts: int, **options) -> None:
        random = np.random.default_rng(seed)
        sizes, self.target = [1 if seed % 4 == 2 else 23, 31, 5, 0], 0
        ends = [(1, 0), (0, 1), (2, 1), (0, 0), (1, 2), (3, 0), (1, 0), (0, 3)]
        lists = [
            [
                random.integers(0, sizes[s], random.integers(0, 6)).tolist() if sizes[s] else []
                for _ in range(sizes[d])
            ]
            for s, d in ends
        ]
        self.graph = TypedGraph(sizes, ends, lists)
        self.fan_outs = [[3, 2, 2, 2, 2, 2, 0, 2], [2, -1, 0, 3, 2, 2, 2, 2], [2, 2, 2, 0, -1, 2, 1, 2]]
        self.widths = [5, 9, 4, 3]
        self.features = [random.standard_normal((n, w)) for n, w in zip(sizes, self.widths, strict=True)]
        self.labels = torch.from_numpy(random.integers(0, CLASSES, sizes[self.target]))
        self.targets = random.permutation(sizes[self.target])[:17]
        # Of type 1 the last part has nothing, of type 2 the first has all; of four parts one has no vertex at all.
        self.offsets = [
            [0, *sorted(random.integers(0, n + 1, parts - 1).tolist()), n] if parts > 1 else [0, n] for n in sizes
        ]
        if parts > 1:
            self.offsets[1][-2], self.offsets[2][1:] = sizes[1], [sizes[2]] * parts
        for of_type in self.offsets if parts == 4 else ():
            of_type[2] = of_type[1]
        self.reach = reach_of(ends, self.fan_outs, self.target)
        self.key = {"epoch": 1, "batch": 2}
        torch.manual_seed(seed)
        self.model = RGCN(self.widths, HIDDEN, CLASSES, self.reach, **options).double()


def step_of(member, seed: int, options: dict):
    """Loss and gradients of one trainer's part, summed over all; what was sent."""
    case = Case(seed, member.world, **options)
    sampler = typed_sampler(case.graph, case.offsets, case.fan_outs, target_type=case.target, seed=seed)
    sampler.sample(case.targets, **case.key)
    segment = sampler.segment(member.rank)
    if member.world > 1:
        member = with_checker(member.on(trainer_grid(member.world)), pool_module.SHARED.checker)
    group = member.along(SPLIT) if member.world > 1 else None
    counters = ExchangeCounters()
    comm = BatchComm(group, counters, CPU, everyone=member.group, checker=member.checker)
    blocks = typed_blocks_of(segment, CPU, comm)
    follow_comm(case.model)
    xs = [torch.from_numpy(rows[segment.vertices_of(t)]) for t, rows in enumerate(case.features)]
    logits = case.model(blocks, xs)
    labels = case.labels[segment.targets]
    loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum") / segment.num_targets
    loss = comm.tie(loss)
    loss.backward()
    if member.world > 1:
        loss, _ = reduce_gradients(list(case.model.parameters()), loss, member)
    gradients = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in case.model.named_parameters()}
    pairs = {
        layer: sum(any(s.send_counts[q] for s in sends) for q in range(member.world))
        for layer, sends in segment.sends.items()
    }
    back = {
        layer: sum(any(s.receive_counts[q] for s in sends) for q in range(member.world))
        for layer, sends in segment.sends.items()
    }
    return {"loss": loss.item(), "gradients": gradients, "counters": counters, "pairs": pairs, "back": back}


def dense_step(seed: int, parts: int, options: dict):
    """Loss and gradients by dense matrices of what the slow sampler draws, in one process."""
    case = Case(seed, parts, **options)
    whole = [[0, n] for n in case.graph.sizes]
    splits = sample_typed(
        case.graph, whole, case.targets, case.fan_outs, target_type=case.target, seed=seed, **case.key
    )
    state = {name: p.detach().clone().requires_grad_() for name, p in case.model.named_parameters()}
    logits = _dense(case, splits, state, options)
    rows = torch.from_numpy(case.targets)
    loss = torch.nn.functional.cross_entropy(logits[rows], case.labels[rows])
    gradients = torch.autograd.grad(loss, list(state.values()), allow_unused=True)
    named = zip(state.items(), gradients, strict=True)
    return loss.item(), {name: torch.zeros_like(p) if grad is None else grad for (name, p), grad in named}


def _dense(case: Case, splits, state: dict[str, Tensor], options: dict) -> Tensor:
    """Logits of all vertices of the target type; rows of vertices outside a level are nonsense that nobody reads."""
    (split,), layers, sizes = splits, len(case.fan_outs), case.graph.sizes
    h = [torch.from_numpy(rows) for rows in case.features]
    if options.get("input_projection", True):
        h = [
            torch.relu(x @ state[f"projection.{t}.weight"].T + state[f"projection.{t}.bias"])
            if f"projection.{t}.weight" in state
            else x
            for t, x in enumerate(h)
        ]
    for layer in range(1, layers + 1):
        conv, out = f"convs.{layer - 1}.", {}
        for t, x in enumerate(h):
            if f"{conv}lin_self.{t}.weight" in state:
                out[t] = x @ state[f"{conv}lin_self.{t}.weight"].T + state[f"{conv}lin_self.{t}.bias"]
        relations = list(case.reach.relations[layer])
        for number, relation in enumerate(relations):
            source, destination = case.graph.ends[relation]
            counts = torch.zeros(sizes[destination], sizes[source]).double()
            for v, _, u in drawn_edges(case.graph, splits, layer, relation):
                counts[v, u] += 1
            mean = counts @ h[source] / counts.sum(dim=1, keepdim=True).clamp(min=1)
            if options.get("bases"):
                shares = state[conv + "coefficients"][number]
                weight = (shares[:, None, None] * state[conv + "bases"]).sum(dim=0)
            else:
                weight = state[f"{conv}lin_relation.{relation}.weight"]
            out[destination] = out[destination] + mean @ weight.T
        for t, rows in out.items():
            own = split.vertices[t][: split.sizes[t, layer]]
            out[t] = _behind(case, layer, t, rows, h[t], own, state, options)
        h = [out.get(t, torch.zeros(n, 0).double()) for t, n in enumerate(sizes)]
    last = h[case.target]
    return last @ state["head.weight"].T + state["head.bias"] if options.get("output_projection") else last


def _behind(case: Case, layer: int, t: int, rows: Tensor, x: Tensor, own, state, options: dict) -> Tensor:
    """Skip, norm and ReLU. Batch statistics are those of the vertices ``own`` of the level."""
    ends = layer == len(case.fan_outs) and not options.get("output_projection")
    skip = None
    if options.get("residual"):
        weight = state.get(f"skips.{layer - 1}.{t}.weight")
        skip = x if weight is None else x @ weight.T
    if skip is not None and (ends or not options.get("residual_after")):
        rows, skip = rows + skip, None
    if ends:
        return rows
    norm, name = options.get("norm", "none"), f"norms.{layer - 1}.{t}."
    if norm == "layer":
        centred = rows - rows.mean(dim=1, keepdim=True)
        rows = centred / (centred**2).mean(dim=1, keepdim=True).add(1e-5).sqrt()
        rows = rows * state[name + "weight"] + state[name + "bias"]
    if norm == "rms":
        eps = torch.finfo(rows.dtype).eps
        rows = rows / (rows**2).mean(dim=1, keepdim=True).add(eps).sqrt() * state[name + "weight"]
    if norm == "batch":
        of_level = rows[own]
        number = max(len(own), 1)
        mean = of_level.sum(dim=0) / number
        variance = ((of_level - mean) ** 2).sum(dim=0) / number
        rows = (rows - mean) / (variance + 1e-5).sqrt() * state[name + "weight"] + state[name + "bias"]
    rows = torch.relu(rows)
    return rows if skip is None else rows + skip
