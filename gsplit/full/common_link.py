"""A link through memory that all trainers map: rows are written once and read where they lie; nothing is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from gsplit.full.common_rows import CommonRows
from gsplit.full.routes import PlacedRoute
from gsplit.kernels import kernels_for
from gsplit.nn import Route
from gsplit.nn.exchange import Link, Returned, rows_times
from gsplit.parallel.checker import Step


@dataclass(frozen=True, kw_only=True)
class CommonLink(Link):
    """A link within one memory, for models that read all rows that their edges come from."""

    common: CommonRows
    """The memory."""
    rank: int
    """This trainer's."""

    @override
    def start_send(
        self, x: Tensor, route: Route, out: Tensor | None = None, *, factor: Tensor | None = None
    ) -> Callable[[], Tensor]:
        assert isinstance(route, PlacedRoute)
        self._enter(Step.EXCHANGE, x, route)
        rows = self.common.share(x.contiguous(), route.sizes, factor)
        received = x.new_empty((route.num_received, *x.shape[1:])) if out is None else out
        torch.index_select(rows, 0, route.places, out=received)
        return lambda: received

    @override
    def start_return(self, received: Tensor, route: Route, *, factor: Tensor | None = None) -> Returned:
        assert isinstance(route, PlacedRoute)
        self._enter(Step.RETURN, received, route)
        totals = [sum(counts) for counts in route.received]
        rows = self.common.share_returned(received.contiguous(), route.received)

        def add_to(own: Tensor) -> None:
            begin = 0
            for peer, count in enumerate(route.send_counts):
                first = sum(totals[:peer]) + sum(route.received[peer][: self.rank])
                values, into = rows[first : first + count], route.send_rows[begin : begin + count]
                begin += count
                if factor is not None:
                    values = rows_times(values, None, factor[into])
                if own.is_floating_point():
                    width = own.shape[1:].numel()
                    by_row = values.reshape(count, width).to(own.dtype)
                    kernels_for(own).add(own.view(len(own), width), into, by_row, [count])
                else:
                    own.index_add_(0, into, values)

        return Returned(add_to)
