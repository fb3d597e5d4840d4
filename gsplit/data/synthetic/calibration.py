"""The figures that make a calibrated graph; what they do is told in gsplit.data.synthetic.calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gsplit.data.synthetic.line import QUARTERS


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """A synthetic graph after one of the paper's (its table 3), and how to sample it to match tables 2 and 5."""

    version: ClassVar[int] = 2
    """As that of :class:`gsplit.data.synthetic.plain.Preset`."""

    num_vertices: int
    num_edges: int
    """Pairs of vertices, as OGB and the paper's table 3 count undirected graphs; each is stored in both directions.
    Duplicates are dropped, so a few per cent more or fewer come out."""
    num_features: int
    num_classes: int
    train_share: float
    valid_share: float
    labelled_share: float = 1.0
    """Below 1, only vertices that targets focus on have labels: train, valid and test are random parts of them."""
    label_purity: float
    """Share of vertices that have the class of their block; others have a random one, which bounds the accuracy."""

    fan_out: tuple[int, ...]
    """At which the preset matches."""
    batch_size: int
    """Targets of a mini-batch, suggested; shrunk with the graph."""

    leaf_size: int
    """Vertices of the smallest blocks, about."""
    community_leaves: int
    """Leaves of a community: a power of BRANCHING."""
    drawn: float
    """Edges drawn for one that remains."""
    degree_sigma: float
    """Of the log-normal share of a vertex."""
    level_ratio: float
    """How much likelier an edge is to stay in a block than to leave it for the next larger one."""
    block_skew: float = 3.0
    """Of places in blocks above the leaves: the larger, the fewer communities do edges between communities go to."""
    quarter_share: float
    """Of the edges, anywhere in the quarter: what holds it together at any scale."""
    cross_share: float
    cross_skew: float
    hub_share: float
    """Of the edges, ending at a hub."""
    hubs: float
    """Share of a community's vertices."""
    focus: float
    focus_power: float
    quarter_targets: tuple[float, ...]
    """Share of each quarter in the training targets, in sum 1."""
    quarter_degrees: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    """Edges of a quarter's vertices beside the others'."""

    @property
    def least_vertices(self) -> int:
        """To shrink it to: a few communities."""
        return QUARTERS * self.leaf_size * self.community_leaves
