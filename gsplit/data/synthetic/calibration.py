"""The figures that make a calibrated graph; their meaning is in gsplit.data.synthetic.calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gsplit.data.synthetic.line import QUARTERS


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """A synthetic graph after one of the paper's (its table 3), and how to sample it to match tables 2 and 5."""

    version: ClassVar[int] = 2
    """Version of the generator, like that of :class:`gsplit.data.synthetic.plain.Preset`."""

    num_vertices: int
    num_edges: int
    """Pairs of vertices, as OGB and the paper's table 3 count undirected graphs; each is stored in both directions.
    Duplicates are dropped, so a few per cent more or fewer come out."""
    num_features: int
    num_classes: int
    train_share: float
    valid_share: float
    labelled_share: float = 1.0
    """Share of vertices with labels. Below 1 they are those that targets focus on, and train, valid and test are
    random parts of them."""
    label_purity: float
    """Share of vertices that have the class of their block; others have a random one, which bounds the accuracy."""

    fan_out: tuple[int, ...]
    """Fan-outs at which the preset matches the paper's tables."""
    batch_size: int
    """Suggested targets of a mini-batch; they shrink with the graph."""

    leaf_size: int
    """Approximate number of vertices of the smallest blocks."""
    community_leaves: int
    """Leaves of a community: a power of BRANCHING."""
    drawn: float
    """Edges drawn for one that remains."""
    degree_sigma: float
    """Sigma of the log-normal share of a vertex."""
    level_ratio: float
    """Odds that an edge stays in a block and does not leave it for the next larger one."""
    block_skew: float = 3.0
    """Skew of places in blocks above the leaves: the larger it is, the fewer communities edges between them go to."""
    quarter_share: float
    """Share of the edges that go anywhere in the quarter, which hold it together at any scale."""
    cross_share: float
    cross_skew: float
    hub_share: float
    """Share of the edges that end at a hub."""
    hubs: float
    """Share of a community's vertices that are hubs."""
    focus: float
    focus_power: float
    quarter_targets: tuple[float, ...]
    """Share of each quarter in the training targets, in sum 1."""
    quarter_degrees: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    """Edges of each quarter's vertices, relative to the others'."""

    @property
    def least_vertices(self) -> int:
        """Fewest vertices to shrink it to: a few communities."""
        return QUARTERS * self.leaf_size * self.community_leaves
