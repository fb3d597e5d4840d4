"""Named synthetic graphs, and ``?scale=`` that shrinks them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gsplit.data.graph import GraphArrays
from gsplit.data.schema import Relation, VertexType
from gsplit.data.synthetic.calibrated import Calibrated, generate_calibrated
from gsplit.data.synthetic.plain import Preset, generate
from gsplit.data.synthetic.typed import EdgesOf, Typed, generate_typed
from gsplit.errors import InputError

PRESETS: dict[str, Preset | Calibrated] = {
    "tiny": Preset(
        num_vertices=1_000, edges_per_vertex=6, num_features=32, num_classes=4, train_share=0.5, valid_share=0.2
    ),
    "small": Preset(
        num_vertices=20_000, edges_per_vertex=10, num_features=64, num_classes=8, train_share=0.5, valid_share=0.2
    ),
    "medium": Preset(
        num_vertices=200_000, edges_per_vertex=15, num_features=100, num_classes=16, train_share=0.3, valid_share=0.1
    ),
    "large": Preset(
        num_vertices=1_000_000,
        edges_per_vertex=20,
        num_features=100,
        num_classes=32,
        train_share=0.1,
        valid_share=0.05,
    ),
    "huge": Preset(
        num_vertices=2_449_029,
        edges_per_vertex=25.3,
        num_features=100,
        num_classes=47,
        train_share=0.08,
        valid_share=0.02,
    ),
    "products": Calibrated(
        num_vertices=2_449_029,
        num_edges=61_859_140,
        num_features=100,
        num_classes=47,
        train_share=0.08,
        valid_share=0.02,
        label_purity=0.85,
        fan_out=(15, 10, 5),
        batch_size=4096,
        leaf_size=150,
        community_leaves=16,
        drawn=1.165,
        degree_sigma=1.2,
        level_ratio=2.0,
        quarter_share=0.1,
        cross_share=0.078,
        cross_skew=3,
        hub_share=0.4,
        hubs=0.02,
        focus=0.2,
        focus_power=2,
        quarter_targets=(0.44, 0.27, 0.18, 0.11),
    ),
    "papers": Calibrated(
        num_vertices=111_059_956,
        num_edges=1_615_685_872,
        num_features=128,
        num_classes=172,
        train_share=0.01087,
        valid_share=0.00113,
        labelled_share=0.01393,
        label_purity=0.7,
        fan_out=(20, 20, 20),
        batch_size=4096,
        leaf_size=128,
        community_leaves=64,
        drawn=1.42,
        degree_sigma=0.5,
        level_ratio=3.0,
        block_skew=6,
        quarter_share=0.04,
        cross_share=0.03,
        cross_skew=6,
        hub_share=1.0,
        hubs=0.0033,
        focus=0.003,
        focus_power=8,
        quarter_targets=(0.5, 0.25, 0.15, 0.1),
    ),
    "amazon": Calibrated(
        num_vertices=1_569_960,
        num_edges=168_000_000,
        num_features=200,
        num_classes=107,
        train_share=0.85,
        valid_share=0.05,
        label_purity=0.85,
        fan_out=(15, 10, 5),
        batch_size=4096,
        leaf_size=1024,
        community_leaves=16,
        drawn=1.26,
        degree_sigma=0.8,
        level_ratio=2.0,
        quarter_share=0.12,
        cross_share=0.16,
        cross_skew=2,
        hub_share=0.9,
        hubs=0.013,
        focus=1,
        focus_power=0,
        quarter_targets=(0.293, 0.293, 0.28, 0.134),
        quarter_degrees=(1.6, 1.2, 0.8, 0.4),
    ),
}
"""Synthetic graphs by name.

The last three have the counts of the paper's graphs (its table 3: 62M, 1.6B and 168M edges, counted as pairs of
vertices; the exact numbers of vertices, and of edges of the first two, are those of ogbn-products, ogbn-papers100M
and AmazonProducts) and are calibrated to its tables 2 and 5; docs/results/presets.md has what they reach. Table 2's
edges are 788 a target on products, 109 on papers100M and 197 on amazon: on products what 15,10,5 gives, on none as
many as 20,20,20.
"""

TYPED: dict[str, Typed] = {
    "mag": Typed(
        types=(
            VertexType("paper", 736_389),
            VertexType("author", 1_134_649),
            VertexType("institution", 8_740),
            VertexType("field_of_study", 59_965),
        ),
        relations=(
            EdgesOf(
                relation=Relation("author", "affiliated_with", "institution"), edges=1_043_998, inside=0.6, skew=3.0
            ),
            EdgesOf(
                relation=Relation("author", "writes", "paper"),
                edges=7_145_660,
                inside=0.85,
                skew=2.2,
                from_destination=True,
            ),
            EdgesOf(relation=Relation("paper", "cites", "paper"), edges=5_416_271, inside=0.8, skew=2.5),
            EdgesOf(relation=Relation("paper", "has_topic", "field_of_study"), edges=7_505_078, inside=0.5, skew=3.0),
        ),
        communities=349,
        num_features=128,
        train_share=0.855,
        valid_share=0.088,
        label_purity=0.85,
    )
}
"""Synthetic graphs of several types by name; ``mag`` has the counts of ogbn-mag."""
Shape = Preset | Calibrated | Typed


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A preset that was asked for."""

    name: str
    scale: float
    preset: Shape
    """The preset, shrunk by the scale."""

    @property
    def label(self) -> str:
        """Name of the graph, and of its folder."""
        return self.name if self.scale == 1 else f"{self.name}-scale{self.scale!r}"

    def generate(self, *, seed: int = 0, features: bool = True) -> GraphArrays:
        """Make the graph; it is the same for the same seed, with features or without."""
        if isinstance(self.preset, Typed):
            return generate_typed(self.preset, seed=seed, features=features)
        if isinstance(self.preset, Calibrated):
            return generate_calibrated(self.preset, seed=seed, features=features)
        graph = generate(self.preset, seed=seed)
        return graph if features else replace(graph, features=None)


def choose(text: str, presets: Mapping[str, Shape] = PRESETS) -> Choice:
    """The preset that ``NAME`` or ``NAME?scale=SHARE`` stands for.

    Vertices, edges, training targets and the suggested batch size shrink by the scale, from 1 down.

    Raises:
        InputError: for an unknown preset or option, a scale that is no number above 0 up to 1, or one that leaves
            too few vertices.
    """
    name, question, options = text.partition("?")
    if name not in presets:
        raise InputError(f"unknown preset {name!r}; choose one of {', '.join(presets)}")
    scale = 1.0
    if question:
        key, _, value = options.partition("=")
        if key != "scale":
            raise InputError(
                f"unknown option {key!r} of synthetic:{text}; the only one is ?scale=, as {name}?scale=0.1"
            )
        scale = _scale(value, text)
    preset = presets[name]
    return Choice(name=name, scale=scale, preset=preset if scale == 1 else _shrunk(preset, scale, text))


def _scale(value: str, text: str) -> float:
    try:
        scale = float(value)
    except ValueError:
        scale = math.nan
    if not 0 < scale <= 1:
        raise InputError(f"the scale of synthetic:{text} must be a number above 0, at most 1, not {value!r}")
    return scale


def _shrunk(preset: Shape, scale: float, text: str) -> Shape:
    n = round(preset.num_vertices * scale)
    if n < preset.least_vertices:
        least = preset.least_vertices / preset.num_vertices
        raise InputError(f"synthetic:{text} would have {n} vertices; the least scale is {least:.2g}")
    if isinstance(preset, Typed):
        return replace(
            preset,
            types=tuple(VertexType(of.name, max(1, round(of.num_vertices * scale))) for of in preset.types),
            relations=tuple(replace(each, edges=round(each.edges * scale)) for each in preset.relations),
        )
    if isinstance(preset, Preset):
        return replace(preset, num_vertices=n)
    edges, batch_size = round(preset.num_edges * scale), max(1, round(preset.batch_size * scale))
    return replace(preset, num_vertices=n, num_edges=edges, batch_size=batch_size)
