"""What a layer computes and moves on one trainer: operations of so many bytes and FLOP, forward and backward.

They are the floor of what gsplit.nn does, in float32: every input of an operation is read once from the device's
memory, every output written once, and a row of a source is read once for each edge. Copies that an implementation
makes beside these (received rows beside own ones, slices and their gradients) are not in it, nor caches of the
device, dropout's random numbers, the loss and the optimiser.

Legend: w_in, w_out widths of a layer; w width of the rows that are sent and summed.

- *sage*, *gcn*: rows are projected before they are sent where that makes them narrower, else after they are summed,
  so w = min(w_in, w_out). sage has a second product, of the destinations' own rows; gcn scales rows by degrees.
- *gat*: own rows are projected, projections are sent: w = w_out. Scores and shares are one number for each edge and
  head; softmax reads or writes all of them ``EDGE_PASSES`` times forward and twice that backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.model_host.counts import LayerCount
from experiments.shared.traffic import FLOAT32_BYTES

INDEX_BYTES = 4
EDGE_PASSES = 8


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Something that a device does in one go."""

    num_bytes: float
    flops: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer of a model.

    Attributes:
        model: ``sage``, ``gat`` or ``gcn``.
        number: from 1 on.
        width_in, width_out: columns of its sources and destinations.
        heads: of gat; 1 of others.
    """

    model: str
    number: int
    width_in: int
    width_out: int
    heads: int = 1

    @property
    def projects_first(self) -> bool:
        """Whether rows are projected before they are sent."""
        return self.model == "gat" or self.width_out < self.width_in

    @property
    def message_width(self) -> int:
        """Columns of the rows that are sent and summed."""
        return self.width_out if self.projects_first else self.width_in

    @property
    def returns(self) -> bool:
        """Whether gradients of the rows that are sent come back; features as they are want none."""
        return self.number > 1 or self.projects_first

    @property
    def parameters(self) -> int:
        """Numbers that are learned."""
        products = 2 if self.model == "sage" else 1
        attention = 2 * self.width_out if self.model == "gat" else 0
        return products * self.width_in * self.width_out + attention + self.width_out

    def forward(self, count: LayerCount) -> list[Operation]:
        """The operations of forward on a trainer with so many vertices and edges."""
        w, sources, sent = self.message_width, count.own_sources + count.received, count.sent
        done = [self._product(count.own_sources)] if self.projects_first else []
        if self.model == "gcn":
            done.append(_rows(2 * count.own_sources, w))
        if sent:
            done.append(_rows(2 * sent, w))  # packed into messages
        if self.model == "gat":
            done += [_rows(sources, w), self._softmax(count, EDGE_PASSES)]
        done.append(self._sum(count, count.destinations))
        if not self.projects_first:
            done.append(self._product(count.destinations))
        if self.model == "sage":
            done.append(self._product(count.destinations))
        done.append(_rows(3 * count.destinations, self.width_out))  # added, bias, activation
        return done

    def backward(self, count: LayerCount) -> list[Operation]:
        """The operations of backward on a trainer with so many vertices and edges."""
        w, sources, sent = self.message_width, count.own_sources + count.received, count.sent
        projected = count.own_sources if self.projects_first else count.destinations
        done = [_rows(3 * count.destinations, self.width_out)]
        if self.model == "sage":
            done += self._gradients(count.destinations)
        if not self.projects_first:
            done += self._gradients(projected)
        if self.returns:
            done.append(self._sum(count, sources))
            if self.model == "gat":
                done += [self._sum(count, 0), self._softmax(count, 2 * EDGE_PASSES), _rows(2 * sources, w)]
            if sent:
                done.append(_rows(3 * sent, w))  # received gradients are added
            if self.model == "gcn":
                done.append(_rows(2 * count.own_sources, w))
        if self.projects_first:
            done += self._gradients(projected)
        return done

    def _product(self, rows: int) -> Operation:
        return Operation(
            num_bytes=FLOAT32_BYTES * rows * (self.width_in + self.width_out),
            flops=2.0 * rows * self.width_in * self.width_out,
        )

    def _gradients(self, rows: int) -> list[Operation]:
        """Gradient of a weight, and of the rows where those are no features."""
        return [self._product(rows)] * (2 if self.number > 1 else 1)

    def _sum(self, count: LayerCount, written: int) -> Operation:
        """One row read, and added, for each edge."""
        edges, w = count.edges, self.message_width
        return Operation(
            num_bytes=FLOAT32_BYTES * (edges + written) * w + INDEX_BYTES * edges, flops=float(edges * w)
        )

    def _softmax(self, count: LayerCount, passes: int) -> Operation:
        return _rows(passes * count.edges, self.heads)


def _rows(rows: int, width: int) -> Operation:
    """Rows that are read or written, once each."""
    return Operation(num_bytes=FLOAT32_BYTES * rows * width)


def layers_of(model: str, level_widths: Sequence[int], heads: int) -> list[Layer]:
    """The layers of a model.

    Args:
        model: ``sage``, ``gat`` or ``gcn``.
        level_widths: [L + 1] columns of the vectors of each level, the features first.
        heads: of gat's hidden layers; the last has one.
    """
    last = len(level_widths) - 1
    return [
        Layer(
            model=model,
            number=number,
            width_in=level_widths[number - 1],
            width_out=level_widths[number],
            heads=heads if model == "gat" and number < last else 1,
        )
        for number in range(1, last + 1)
    ]
