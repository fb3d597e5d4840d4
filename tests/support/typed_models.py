"""Models of several types on dense matrices, written from the papers, and steps of ours beside them.

Nothing is shared with ``gsplit.nn`` but the names of the weights. A_r[v, u] counts the edges from u to v that were
drawn by relation r in a layer, W_r[v, u] adds up their weights.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from gsplit.data import Relation, Schema, VertexType
from gsplit.data import TypedGraph as StoredGraph
from gsplit.data.graph import Adjacency
from gsplit.engine.typed.loader import TypedSplitLoader
from gsplit.nn import RGAT, RGCN, BatchComm, ExchangeCounters, UntypedSAGE
from gsplit.nn.norm import follow_comm
from gsplit.parallel import SPLIT, reduce_gradients, trainer_grid, with_checker
from gsplit.parallel.mailboxes import Mailboxes
from gsplit.sampling import reach_of
from gsplit.sampling.reach import Reach
from support import pool as pool_module
from support.typed_reference import TypedGraph, drawn_edges, sample_typed, typed_sampler

CPU = torch.device("cpu")
HIDDEN, CLASSES = 6, 3
MODELS = {"rgcn": RGCN, "rgat": RGAT, "untyped": UntypedSAGE}


class Case:
    """A typed graph with features, a split of it, and a model's options; the same on all trainers for one seed.

    Relations with even numbers have edge weights. ``projected`` are the types whose features travel projected.
    """

    def __init__(
        self,
        seed: int,
        parts: int,
        *,
        model: str = "rgcn",
        hidden: int = HIDDEN,
        width: int | None = None,
        projected: tuple[int, ...] = (),
        **options,
    ) -> None:
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
        self.widths = [5, 9, 4, 3] if width is None else [width] * 4
        self.features = [random.standard_normal((n, w)) for n, w in zip(sizes, self.widths, strict=True)]
        self.labels = torch.from_numpy(random.integers(0, CLASSES, sizes[self.target]))
        self.targets = random.permutation(sizes[self.target])[:17]
        # Of type 1 the last part has nothing, of type 2 the first has all; of four parts or more one has no vertex.
        self.offsets = [
            [0, *sorted(random.integers(0, n + 1, parts - 1).tolist()), n] if parts > 1 else [0, n] for n in sizes
        ]
        if parts > 1:
            self.offsets[1][-2], self.offsets[2][1:] = sizes[1], [sizes[2]] * parts
        for of_type in self.offsets if parts >= 4 else ():
            of_type[2] = of_type[1]
        self.reach = reach_of(ends, self.fan_outs, self.target)
        self.key = {"epoch": 1, "batch": 2}
        self.weights = [
            [random.random(len(row)).astype(np.float32) + 0.1 for row in rows] if r % 2 == 0 else None
            for r, rows in enumerate(lists)
        ]
        self.name, self.projected = model, projected
        torch.manual_seed(seed)
        self.model = MODELS[model](self.widths, hidden, CLASSES, self.reach, **options).double()


def typed_loader(graph: TypedGraph, weights: list, *, dtype=torch.float64, takes_weights: bool) -> TypedSplitLoader:
    """A loader of blocks of a graph, with weights [R], None or [N of the destination type][in-edges] float32."""
    names = [f"t{t}" for t in range(len(graph.sizes))]
    adjacencies = []
    for r, of_relation in enumerate(weights):
        edges = graph.edges(r)
        flat = None if of_relation is None else np.concatenate([*of_relation, np.empty(0, np.float32)])
        adjacencies.append(Adjacency(indptr=edges.indptr, indices=edges.indices, edge_weight=flat))
    nothing = np.empty(0, np.int64)
    schema = Schema(
        tuple(VertexType(*each) for each in zip(names, graph.sizes, strict=True)),
        tuple(Relation(names[s], f"r{r}", names[d]) for r, (s, d) in enumerate(graph.ends)),
    )
    stored = StoredGraph(
        schema=schema,
        target=0,
        adjacencies=tuple(adjacencies),
        features_by_type=(None,) * len(names),
        labels=nothing,
        train_idx=nothing,
        valid_idx=nothing,
        test_idx=nothing,
        num_classes=CLASSES,
    )
    return TypedSplitLoader(SimpleNamespace(graph=stored), dtype=dtype, weights=takes_weights)


def mailboxes_of(member) -> Mailboxes:
    return Mailboxes.fresh(pool_module.SHARED.mail, member.rank, tuple(range(member.world)), member.barrier)


def step_of(member, seed: int, options: dict, by_memory: bool = False):
    """Loss and gradients of one trainer's part, summed over all; what was sent."""
    case = Case(seed, member.world, **options)
    how = {"target_type": case.target, "seed": seed, "edge_ids": case.model.uses_edge_weight}
    sampler = typed_sampler(case.graph, case.offsets, case.fan_outs, **how)
    sampler.sample(case.targets, **case.key)
    segment = sampler.segment(member.rank)
    if member.world > 1:
        member = with_checker(member.on(trainer_grid(member.world)), pool_module.SHARED.checker)
    group = None
    if member.world > 1:
        group = mailboxes_of(member) if by_memory else member.along(SPLIT)
    counters = ExchangeCounters()
    comm = BatchComm(group, counters, CPU, everyone=member.group, checker=member.checker)
    blocks = typed_loader(case.graph, case.weights, takes_weights=case.model.uses_edge_weight).blocks(segment, comm)
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
    # Features have a way back only where they travel projected.
    projected = range(len(case.widths)) if options.get("input_projection", True) else case.projected
    back = {
        layer: sum(
            any(s.receive_counts[q] for t, s in enumerate(sends) if layer > 1 or t in projected)
            for q in range(member.world)
        )
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
    h, activation = [torch.from_numpy(rows) for rows in case.features], ACTIVATIONS[case.name]
    if options.get("input_projection", True):
        h = [
            activation(x @ state[f"projection.{t}.weight"].T + state[f"projection.{t}.bias"])
            if f"projection.{t}.weight" in state
            else x
            for t, x in enumerate(h)
        ]
    for layer in range(1, layers + 1):
        drawn = {r: _matrices(case, splits, layer, r) for r in case.reach.relations[layer]}
        out = CONVOLUTIONS[case.name](case.reach, layer, drawn, h, state, options)
        for t, rows in out.items():
            own = split.vertices[t][: split.sizes[t, layer]]
            out[t] = _behind(case, layer, t, rows, h[t], own, state, options)
        h = [out.get(t, torch.zeros(n, 0).double()) for t, n in enumerate(sizes)]
    last = h[case.target]
    return last @ state["head.weight"].T + state["head.bias"] if options.get("output_projection") else last


def _matrices(case: Case, splits, layer: int, relation: int) -> tuple[Tensor, Tensor]:
    """A_r and W_r of a layer."""
    source, destination = case.graph.ends[relation]
    counts, weights = torch.zeros(2, case.graph.sizes[destination], case.graph.sizes[source]).double()
    of_relation = case.weights[relation]
    for v, place, u in drawn_edges(case.graph, splits, layer, relation):
        counts[v, u] += 1
        weights[v, u] += 1 if of_relation is None else float(of_relation[v][place])
    return counts, weights


def _self_terms(reach: Reach, conv: str, layer: int, h, state) -> dict[int, Tensor]:
    """W_t h_v + b_t, a matrix of each type, of all vertices of the level."""
    names = {t: f"{conv}lin_self.{t}." for t in reach.types[layer]}
    return {t: h[t] @ state[name + "weight"].T + state[name + "bias"] for t, name in names.items()}


def _rgcn(reach: Reach, layer: int, drawn, h, state, options) -> dict[int, Tensor]:
    """sum_r W_r mean(h_u), or of w_uv h_u, divided by the number of edges."""
    conv = f"convs.{layer - 1}."
    out = _self_terms(reach, conv, layer, h, state)
    for number, (relation, (counts, weights)) in enumerate(drawn.items()):
        source, destination = reach.ends[relation]
        sums = (weights if options.get("edge_weights") else counts) @ h[source]
        mean = sums / counts.sum(dim=1, keepdim=True).clamp(min=1)
        if options.get("bases"):
            shares = state[conv + "coefficients"][number]
            weight = (shares[:, None, None] * state[conv + "bases"]).sum(dim=0)
        else:
            weight = state[f"{conv}lin_relation.{relation}.weight"]
        out[destination] = out[destination] + mean @ weight.T
    return out


def _rgat(reach: Reach, layer: int, drawn, h, state, options) -> dict[int, Tensor]:
    """sum_r of softmax by relation and head; the last layer averages its heads."""
    conv, last = f"convs.{layer - 1}.", layer == reach.num_layers
    out, slope = _self_terms(reach, conv, layer, h, state), options.get("negative_slope", 0.2)
    for relation, (counts, _) in drawn.items():
        source, destination = reach.ends[relation]
        att_source, att_destination = (state[f"{conv}att_{end}.{relation}"] for end in ("source", "destination"))
        matrix = state[f"{conv}lin_relation.{relation}.weight"]
        of_destinations = state.get(f"{conv}lin_destination.{relation}.weight", matrix)
        heads = len(att_source)
        assert heads == (options.get("out_heads", 1) if last else options.get("heads", 4))
        sources = (h[source] @ matrix.T).chunk(heads, dim=1)
        destinations = (h[destination] @ of_destinations.T).chunk(heads, dim=1)
        outputs = []
        for head in range(heads):
            score = (sources[head] @ att_source[head])[None, :] + (destinations[head] @ att_destination[head])[
                :, None
            ]
            score = torch.where(score > 0, score, slope * score).where(counts > 0, 0)
            share = counts * score.exp()
            total = share.sum(dim=1, keepdim=True)
            outputs.append((share / torch.where(total > 0, total, 1)) @ sources[head])
        out[destination] = out[destination] + (sum(outputs) / heads if last else torch.cat(outputs, dim=1))
    return out


def _untyped(reach: Reach, layer: int, drawn, h, state, options) -> dict[int, Tensor]:
    """GraphSAGE on the joint graph: vertices of all types in one matrix, in-edges of all relations in one mean."""
    conv, sizes = f"convs.{layer - 1}.", [len(rows) for rows in h]
    begins = np.cumsum([0, *sizes])
    joint = torch.zeros(begins[-1], begins[-1]).double()
    for relation, (counts, _) in drawn.items():
        source, destination = reach.ends[relation]
        rows, columns = (slice(begins[t], begins[t + 1]) for t in (destination, source))
        joint[rows, columns] += counts
    width = state[conv + "lin_self.weight"].shape[1]
    x = torch.cat([rows if rows.shape[1] == width else torch.zeros(len(rows), width).double() for rows in h])
    mean = joint @ x / joint.sum(dim=1, keepdim=True).clamp(min=1)
    own = x @ state[conv + "lin_self.weight"].T + state[conv + "lin_self.bias"]
    rows = (own + mean @ state[conv + "lin_neigh.weight"].T).split(sizes)
    return {t: rows[t] for t in reach.types[layer]}


# Of (reach, layer, {relation: (A_r, W_r)}, [T] rows of the level below, weights by name, options of the model): rows
# by type. Types that the level below has not have rows without width.
CONVOLUTIONS = {"rgcn": _rgcn, "rgat": _rgat, "untyped": _untyped}
ACTIVATIONS = {"rgcn": torch.relu, "rgat": torch.nn.functional.elu, "untyped": torch.relu}


def _behind(case: Case, layer: int, t: int, rows: Tensor, x: Tensor, own, state, options: dict) -> Tensor:
    """Skip, norm and activation. Batch statistics are those of the vertices ``own`` of the level."""
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
    rows = ACTIVATIONS[case.name](rows)
    return rows if skip is None else rows + skip


def dense_levels(layout, model, name="rgcn", options=None, trained=()) -> dict[int, list[Tensor]]:
    """Level -> vectors of all vertices by type, over all edges of the relations that each layer has weights for.

    ``trained`` has the rows of types, by number and layout id, that have no features.
    """
    graph, state, reach = layout.graph, dict(model.named_parameters()), model.reach
    counts, activation = [each.num_vertices for each in graph.schema.types], ACTIVATIONS[name.split()[0]]
    rows = [
        np.empty((n, 0)) if x is None else np.asarray(x) for n, x in zip(counts, graph.features_by_type, strict=True)
    ]
    h = [torch.tensor(each).double() for each in rows]
    for type_, rows_of_type in dict(trained).items():
        h[type_] = rows_of_type
    for t in reach.types[0]:
        h[t] = activation(h[t] @ state[f"projection.{t}.weight"].T + state[f"projection.{t}.bias"])
    levels = {}
    for layer in range(1, reach.num_layers + 1):
        matrices = {r: both_matrices(graph, r, counts) for r in reach.relations[layer]}
        out = CONVOLUTIONS[name.split()[0]](reach, layer, matrices, h, state, options or {})
        if layer < reach.num_layers:
            out = {t: activation(rows) for t, rows in out.items()}
        h = levels[layer] = [out.get(t, torch.zeros(n, 0).double()) for t, n in enumerate(counts)]
    return levels


def both_matrices(graph, relation, counts) -> tuple[torch.Tensor, torch.Tensor]:
    """[destinations, sources] numbers of edges, and their weights."""
    source, to = graph.schema.ends(relation)
    edges, matrices = graph.adjacencies[relation], torch.zeros(2, counts[to], counts[source]).double()
    for v in range(counts[to]):
        for e in range(edges.indptr[v], edges.indptr[v + 1]):
            matrices[0, v, edges.indices[e]] += 1
            matrices[1, v, edges.indices[e]] += 1 if edges.edge_weight is None else float(edges.edge_weight[e])
    return matrices[0], matrices[1]
