"""The mini-batches of a training run: what is drawn, by whom, and in which order they are trained."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from gsplit.config.fields import Accepted, Canonical, Checked, Range, of_kind
from gsplit.config.flags import Aliases, Repeated, Takes
from gsplit.config.parallel import SAMPLED
from gsplit.config.rules import COST, RESULTS, AsksForNothing, FixedInEpoch, Needed, Only
from gsplit.errors import InputError
from gsplit.units import parse_bytes

Order = Literal["sequence", "ready"]
Sampling = Literal["neighbours", "ladies", "fastgcn", "uniform", "saint", "clusters"]
Estimate = Literal["ratio", "unbiased"]
Importance = Literal["squares", "counts", "norms"]
Draw = Literal["priority", "race"]
MAX_SLOTS = 1024
MOST_DRAWN = 2**31 - 1
"""Neighbours that a relation may draw per hop."""
MOST_SOURCES = 2**27
"""Sources that a layer may draw."""
MOST_TOGETHER = 4096
"""Mini-batches that may be sampled together."""


@dataclass(frozen=True, kw_only=True)
class RuleFacts:
    """Facts about a sampling rule that flags, checks and prices go by."""

    layerwise: bool = False
    """A number of sources is drawn for a whole layer (--layer-sizes)."""
    subgraph: bool = False
    """A mini-batch is the subgraph of a set of vertices, which all layers share."""
    drawn_set: bool = False
    """The set is drawn, and has so many vertices as --subgraph asks for."""
    draws_targets: bool = False
    """An epoch may have a training vertex several times or not at all, so that a target stands for others."""
    scales: Literal["always", "unbiased", "never"] = "never"
    """When each edge counts by its source: always, with --estimate unbiased alone, or never."""


RULES: dict[str, RuleFacts] = {
    "neighbours": RuleFacts(),
    "ladies": RuleFacts(layerwise=True, scales="always"),
    "fastgcn": RuleFacts(layerwise=True, scales="always"),
    "uniform": RuleFacts(subgraph=True, drawn_set=True, scales="unbiased"),
    "saint": RuleFacts(subgraph=True, drawn_set=True, draws_targets=True, scales="always"),
    "clusters": RuleFacts(subgraph=True),
}
"""The rules by name; all that depends on which it is reads its facts."""
LAYERWISE = tuple(name for name, facts in RULES.items() if facts.layerwise)
"""Rules that draw a number of sources for a whole layer."""
DRAWN_SETS = tuple(name for name, facts in RULES.items() if facts.drawn_set)
"""Rules whose sets have so many vertices as is asked for."""
SUBGRAPHS = tuple(name for name, facts in RULES.items() if facts.subgraph)
"""Rules whose mini-batch is the subgraph of a set of vertices."""


def check_fan_out(fan_out: Sequence[int], flag: str = "--fan-out") -> None:
    """Check what a flag says as a fan-out: a number for each hop, from 1 on, or -1 for all neighbours.

    Raises:
        InputError: for anything else.
    """
    if not fan_out:
        raise InputError(f"{flag} needs a number for each hop, such as 20,20,20")
    for number in fan_out:
        if not isinstance(number, int):  # from Python it may be anything
            raise InputError(f"{flag} takes whole numbers, not {number!r}")
        if number < -1 or number == 0:
            raise InputError(f"{flag} takes numbers from 1 on, or -1 for all neighbours, not {number}")


_FAN_OUT_OF = re.compile(r"(?P<relation>[^,].*?)=(?P<numbers>\s*-?\d+\s*(?:,\s*-?\d+\s*)*)(?:,|\Z)")
"""A relation and its numbers. The name ends at the first ``=`` with nothing but numbers before the next name."""


def fan_outs_by_name(text: FanOutOf | None) -> dict[str, tuple[int, ...]]:
    """Read what ``--fan-out-of`` says: fan-outs by the names that it gives relations; none where it was not given.

    Args:
        text: as a configuration has it, which makes one of a mapping.

    Raises:
        InputError: for what is no relation with numbers, a relation that is there twice, and numbers below -1.

    Examples:
        >>> fan_outs_by_name("author__writes__paper=5,5,cites=0,10")
        {'author__writes__paper': (5, 5), 'cites': (0, 10)}
    """
    assert not isinstance(text, Mapping)
    found: dict[str, tuple[int, ...]] = {}
    rest = text or ""
    while rest:
        entry = _FAN_OUT_OF.match(rest)
        if entry is None:
            raise InputError(
                f"--fan-out-of takes a relation and numbers by hop, such as author__writes__paper=5,5, not {rest}"
            )
        name, numbers = entry["relation"].strip(), tuple(map(int, entry["numbers"].split(",")))
        if name in found:
            raise InputError(f"--fan-out-of has {name} twice; say it once")
        if wrong := [number for number in numbers if not -1 <= number <= MOST_DRAWN]:
            raise InputError(
                f"--fan-out-of {name} takes numbers from 0 to {MOST_DRAWN}, or -1 for all neighbours, not {wrong[0]}"
            )
        found[name] = numbers
        rest = rest[entry.end() :]
    return found


def _fan_out_of(flag: str, value: Any) -> str:
    """Return fan-outs of relations as one text, sorted; from Python they may be a mapping, with triples as names."""
    if not isinstance(value, Mapping):
        return _in_words(fan_outs_by_name(of_kind(flag, value, str)).items())
    pairs = [
        ("__".join(map(str, name)) if isinstance(name, tuple) else str(name), of_kind(flag, each, tuple[int, ...]))
        for name, each in value.items()
    ]
    text = _in_words(pairs)
    if sorted(fan_outs_by_name(text).items()) != sorted(pairs):
        raise InputError(f"{flag} reads {text} in another way: no name may have numbers behind = or a comma")
    return text


def _in_words(pairs: Iterable[tuple[str, tuple[int, ...]]]) -> str:
    """Fan-outs of relations as the command line takes them."""
    return ",".join(f"{name}={','.join(map(str, numbers))}" for name, numbers in sorted(pairs))


def _check_sizes(sizes: tuple[int, ...]) -> None:
    if not sizes or not all(isinstance(size, int) and 1 <= size <= MOST_SOURCES for size in sizes):
        given = ",".join(map(str, sizes)) or "none"
        raise InputError(
            f"--layer-sizes takes a number from 1 to {MOST_SOURCES} for each hop, such as 512,512,512, not {given}"
        )


def _check_bulk(text: str) -> None:
    if text != "auto" and (not text.isdecimal() or not 1 <= int(text) <= MOST_TOGETHER):
        raise InputError(f"--bulk takes a number of mini-batches from 1 to {MOST_TOGETHER}, or auto, not {text}")


def _check_subgraph(text: str) -> None:
    number = text.removesuffix("%")
    if text.endswith("%"):
        if re.fullmatch(r"\d+(\.\d*)?|\.\d+", number) is None or not 0 < float(number) <= 100:
            raise InputError(f"--subgraph takes a share of the vertices above 0% and up to 100%, not {text}")
    elif not number.isdecimal() or int(number) < 1:
        raise InputError(f"--subgraph takes a number of vertices from 1 on, or a share such as 10%, not {text}")


def takes_all(fan_out: tuple[int, ...]) -> bool:
    """Return whether all neighbours are taken at every hop."""
    return all(number == -1 for number in fan_out)


FanOutOf = (
    Annotated[str, Canonical(_fan_out_of), Repeated, Takes("RELATION=N,N,...")]
    | Mapping[str | tuple[str, str, str], Sequence[int]]
)
"""A text, which a configuration makes of a mapping, too."""
LayerSizes = Annotated[tuple[int, ...], Accepted(_check_sizes)]
Subgraph = Annotated[str, Accepted(_check_subgraph)]


@dataclass(frozen=True, kw_only=True)
class SamplingConfig(Checked):
    """Sampling: how mini-batches are drawn and handed to the trainers."""

    sampling: Annotated[Sampling, Only(strategy=SAMPLED), RESULTS, FixedInEpoch()] = "neighbours"
    """neighbours: each destination keeps --fan-out of its in-edges; ladies: a layer draws --layer-sizes sources out
    of its in-neighbours, by importance; fastgcn: out of all vertices; uniform: the subgraph of a random --subgraph of
    the vertices, as ScaleGNN; saint: of one drawn by importance, as GraphSAINT's nodes; clusters: that of some
    --clusters of the layout's parts, as Cluster-GCN."""
    fan_out: Annotated[
        tuple[int, ...],
        Accepted(check_fan_out),
        Only(sampling="neighbours"),
        AsksForNothing(takes_all),
        RESULTS,
        Aliases(("--num-neighbors",)),
    ] = (20, 20, 20)
    """Neighbours drawn per hop, with commas or spaces; the first is for the targets (as in PyG; DGL lists them
    the other way round). -1 takes all."""
    fan_out_of: Annotated[
        FanOutOf | None,
        Only(strategy=SAMPLED),
        Only(sampling="neighbours"),
        Only(several_types=True),
        AsksForNothing(""),
        RESULTS,
    ] = None
    """Where there are several relations: other numbers than --fan-out for some, as many, as
    author__writes__paper=5,5,paper__cites__paper=0,10; 0 draws none, -1 takes all. A name that one relation alone has
    is enough. From Python also a mapping of names, or of triples: {("author", "writes", "paper"): (5, 5)}."""
    layer_sizes: Annotated[
        LayerSizes | None,
        Only(strategy=SAMPLED),
        Only(sampling=LAYERWISE),
        Needed("sources drawn per hop, such as 512,512,512"),
        RESULTS,
    ] = None
    """ladies, fastgcn: sources drawn per hop, with commas or spaces; the first is for the targets."""
    subgraph: Annotated[
        Subgraph | None,
        Only(strategy=SAMPLED),
        Only(sampling=DRAWN_SETS),
        Needed("the vertices of a subgraph: 10%"),
        RESULTS,
        FixedInEpoch(sampling=DRAWN_SETS),
    ] = None
    """uniform: vertices of a subgraph, a number or a share such as 10%; without --fresh an epoch has every
    vertex once. saint: darts thrown at all vertices, so some fewer."""
    fresh: Annotated[bool, Only(strategy=SAMPLED), Only(sampling="uniform"), Only(grid=None), RESULTS] = False
    """uniform: draw another set of --subgraph vertices for each layer, out of all vertices. With --estimate unbiased
    several linear layers are right on average then, where one set makes each alone so; more rows are loaded."""
    clusters: Annotated[
        int | None,
        Range(1),
        Only(strategy=SAMPLED),
        Only(sampling="clusters"),
        Needed("parts of each: 4"),
        RESULTS,
        FixedInEpoch(sampling="clusters"),
    ] = None
    """clusters: parts of the layout that make a subgraph; a layout with many parts for few trainers is best."""
    estimate: Annotated[Estimate, Only(strategy=SAMPLED), Only(sampling=(*LAYERWISE, *DRAWN_SETS)), RESULTS] = "ratio"
    """ladies, fastgcn, uniform, saint: ratio takes the mean over the edges that are kept, each by what it stands for,
    which is off by a little; unbiased sums them, which is right on average, and varies more; so does saint with
    losses. With uniform and ratio, without --fresh, a loop of the graph's own weighs more than its share, for it is
    always kept: let the model make loops instead."""
    importance: Annotated[
        Importance,
        Only(strategy=SAMPLED),
        Only(sampling=(*LAYERWISE, "saint")),
        RESULTS,
        FixedInEpoch(sampling="saint"),
    ] = "squares"
    """ladies, fastgcn, saint: a source's chance goes by the sum of the squares of its edges' shares (LADIES), by the
    square of their number (the bulk sampling paper), or by the square root of that sum, their norm: errors are
    smaller where a layer draws much of its pool, and larger where it draws little."""
    draw: Annotated[Draw, Only(strategy=SAMPLED), Only(sampling="ladies"), RESULTS] = "priority"
    """ladies: priority sampling; or race, one source after the other without replacement."""
    batch_size: Annotated[
        int, Range(1), Only(strategy=SAMPLED), Only(sampling=("neighbours", *LAYERWISE)), RESULTS, FixedInEpoch()
    ] = 512
    """Targets of one mini-batch over ALL trainers together (DGL and PyG count per GPU)."""
    samplers: Annotated[int | None, Range(0), Only(strategy=SAMPLED), Only(splits=True), AsksForNothing(0), COST] = (
        None
    )
    """Processes that sample and split mini-batches ahead of training. By default the cores that the trainers leave
    over, at least 1 and at most 2 for each trainer, 8 for each GPU; 0 lets every trainer sample for itself."""
    slots: Annotated[int | None, Range(1, MAX_SLOTS), Only(strategy=SAMPLED), Only(sampler_processes=True), COST] = (
        None
    )
    """Mini-batches, or bulks of them, that may be sampled, or being sampled, at a time, in shared memory. By default
    --samplers, --prefetch and 2 more."""
    bulk: Annotated[str, Accepted(_check_bulk), Only(strategy=SAMPLED), Only(sampler_processes=True), COST] = "1"
    """Mini-batches that a sampler draws, writes and reports at a time, into one slot: more where they are so small
    that messages take as long as they do. auto: as many as an eighth of the free memory takes, but at most a
    quarter of what a sampler samples of an epoch, and 256. Results stay the same."""
    order: Annotated[Order, Only(strategy=SAMPLED), Only(sampler_processes=True), COST, RESULTS] = "sequence"
    """sequence trains mini-batches in the order of the epoch, so that results do not depend on --samplers; ready
    trains first what is finished first."""
    prefetch: Annotated[int, Range(0, 256), Only(strategy=SAMPLED), COST] = 1
    """Mini-batches that each trainer loads ahead of the one it computes."""
    sampler_memory: Annotated[str, Accepted(parse_bytes), Only(strategy=SAMPLED), COST] = "4GiB"
    """What each sampler's maps of vertices may take. Where maps of all vertices of the graph would take more (8 bytes
    a vertex), it has hash maps of the vertices of a mini-batch, which are slower."""
    sampler_threads: Annotated[int, Range(1, 256), Only(strategy=SAMPLED), Only(sampler_processes=True), COST] = 1
    """CPU threads a sampler may use; more samplers are better where there are enough mini-batches and memory."""
    max_sampler_restarts: Annotated[int, Range(0), Only(strategy=SAMPLED), Only(sampler_processes=True), COST] = 3
    """Samplers that may be replaced when something kills them, before the run is given up."""

    @property
    def layers(self) -> int:
        """Number of hops, which is the number of layers of the model."""
        return len(self.fan_out)
