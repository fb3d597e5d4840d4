"""The blocks of a segment of several types: views of its bytes on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from gsplit.device import accelerator
from gsplit.nn import BatchComm, Block, Route, TypedBlock
from gsplit.sampling import Segment


def typed_blocks_of(
    segment: Segment, device: torch.device, comm: BatchComm | None, data: Tensor | None = None
) -> dict[int, TypedBlock]:
    """The blocks of all layers, keyed 1 .. L. Copies the segment to the device in one piece.

    Args:
        segment: this trainer's, of any number of types and relations; unsplit (one part) where ``comm`` is None.
        device: where the blocks shall be.
        comm: the communicator of the mini-batch.
        data: the segment on the device, where it has been copied before.
    """
    assert comm is not None or segment.parts == 1
    on_device = accelerator.moved(segment.data, device) if data is None else data

    def view(at: int, count: int, dtype: torch.dtype) -> Tensor:
        return on_device[at : at + count * dtype.itemsize].view(dtype)

    blocks: dict[int, TypedBlock] = {}
    for layer, headers in segment.blocks.items():
        sends, routes = segment.sends[layer], None
        if comm is not None and segment.parts > 1:
            routes = tuple(
                Route(
                    send_rows=view(each.send_rows_at, sum(each.send_counts), torch.int32),
                    send_counts=each.send_counts,
                    receive_counts=each.receive_counts,
                    layer=layer,
                    always_returns=layer > 1,
                )
                for each in sends
            )
        relations = []
        for header, (source, _) in zip(headers, segment.relations, strict=True):
            edges = header.num_edges
            rows = header.num_destinations + 1
            relations.append(
                Block(
                    num_destinations=header.num_destinations,
                    num_own_sources=header.num_own_sources + sum(sends[source].receive_counts),
                    indptr=view(header.indptr_at, rows, torch.int32)
                    if header.indptr_at
                    else torch.zeros(rows, dtype=torch.int32, device=device),
                    indices=view(header.indices_at, edges, torch.int32),
                    num_own_edges=edges,
                    edge_ids=view(header.edge_ids_at, edges, torch.int64) if segment.has_edge_ids else None,
                    edge_weight=None,
                    degrees=None,
                    route=None,
                    comm=None,
                )
            )
        blocks[layer] = TypedBlock(
            ends=segment.relations,
            num_own_sources=tuple(each.num_own_sources for each in sends),
            num_destinations=tuple(sizes[layer] for sizes in segment.levels),
            blocks=tuple(relations),
            routes=routes,
            comm=comm,
        )
    return blocks
