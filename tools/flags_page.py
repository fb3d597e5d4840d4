"""The reference of all flags, rendered from the fields of the configurations and the rules beside them.

``make docs`` puts the text of :func:`render` into docs/reference/flags.md, in place of its marker; nothing of it is
kept in the repository. A field says all of it: its annotation the kind, the choices and the range, what stands beside
that the rules, its default the default, and the docstring under it what it is.
"""

from __future__ import annotations

import inspect
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from gsplit.config.features import FeaturesConfig
from gsplit.config.fields import Range, flag_of, metadata_of
from gsplit.config.flags import Flag, flags_of, shown
from gsplit.config.links import LinksConfig
from gsplit.config.model import ModelConfig
from gsplit.config.optimisation import ObjectiveConfig, OptimisationConfig
from gsplit.config.parallel import ParallelConfig
from gsplit.config.partition import PartitionConfig, ReportConfig
from gsplit.config.predict import PredictConfig
from gsplit.config.rules import AsksForNothing, FixedInEpoch, Mark, Needed, Only, rules_of
from gsplit.config.run import EvaluationConfig, RunConfig
from gsplit.config.sampling import SamplingConfig
from gsplit.config.train import TrainConfig
from gsplit.data import __main__ as data
from gsplit.data.build_options import BuildOptions
from gsplit.data.importers.attached.link_files import LinkFiles
from gsplit.data.importers.attached.vertex_files import VertexFiles
from gsplit.data.importers.keys import Keys
from gsplit.data.importers.named_edges import IdOptions
from gsplit.doctor.__main__ import DoctorConfig
from gsplit.report.__main__ import PageConfig

GROUPS = (
    RunConfig,
    EvaluationConfig,
    ModelConfig,
    SamplingConfig,
    LinksConfig,
    OptimisationConfig,
    ObjectiveConfig,
    ParallelConfig,
    FeaturesConfig,
)
"""The groups of TrainConfig, in the order of the page."""
COMMANDS: dict[str, tuple[type, ...]] = {
    "gsplit train": GROUPS,
    "gsplit partition": (PartitionConfig,),
    "gsplit import": (VertexFiles, LinkFiles, Keys, IdOptions, BuildOptions),
    "gsplit predict": (PredictConfig,),
    "gsplit report LAYOUT": (ReportConfig,),
    "gsplit report RUN": (PageConfig,),
    "gsplit doctor": (DoctorConfig,),
}
"""The configurations that the flags of each command are fields of."""
FUNCTIONS: dict[str, Callable[..., object]] = {
    "gsplit import": data.import_,
    "gsplit export": data.export_,
    "gsplit info": data.info,
}
"""Functions whose arguments are flags of a command."""
INHERITED = {DoctorConfig: TrainConfig}
"""Configurations that have the fields of another, which stand there alone."""
MARKS = {
    Mark.RESULTS: "changes what is learned; a run that goes on names a change, and each epoch records it",
    Mark.COST: "costs or saves time or memory alone; without effect it is warned of, and not refused",
    Mark.NOT_RESUMED: "a run that goes on does not take it over",
}
FACTS = {
    "task": "the task of the graph is {}",
    "built_in_loss": "the loss is none of the user's",
    "sampler_processes": "there are samplers (`--samplers` above 0)",
    "rows_exchanged": "trainers send each other rows",
    "sums_exchanged": "trainers may send each other sums: the model and the rule allow it",
    "validation": "there is validation",
    "presampling": "mini-batches are pre-sampled (`--weights presample` or `--hotness presample`)",
    "weighed_parts": "the method balances weights",
    "balanced_cut": "the method balances a cut",
    "several_cuts": "the method can make several cuts",
}
"""What rules name that is no field, in words that follow "only where"."""
NAMES = {int: "whole number", float: "number", str: "text", Path: "path", bool: "switch"}


def render() -> str:
    """The text of the reference: each command, its groups, their flags."""
    lines: list[str] = []
    for command in (*COMMANDS, *(each for each in FUNCTIONS if each not in COMMANDS)):
        lines += [f"## {command}", ""]
        if function := FUNCTIONS.get(command):
            lines += [_first(function.__doc__), ""]
            lines += [line for flag in shown_flags(function) for line in lines_of(flag)]
        configurations = COMMANDS.get(command, ())
        for configuration in configurations:
            if len(configurations) > 1:
                lines += [f"### {title(configuration)}", ""]
            lines += [_first(configuration.__doc__), ""]
            if configuration in INHERITED:
                lines += ["It also takes all flags of `gsplit train`.", ""]
            lines += [line for flag in shown_flags(configuration) for line in lines_of(flag)]
    return "\n".join(lines)


def title(configuration: type) -> str:
    """The name of a group of flags: ``VertexFiles`` is *Vertex files*."""
    words = re.findall("[A-Z][a-z]+", configuration.__name__.removesuffix("Config"))
    return " ".join(words).capitalize()


def shown_flags(command: Callable[..., object]) -> list[Flag]:
    """The flags of a configuration or a function, without those that the page shows elsewhere."""
    bases = command.__mro__[1:] if isinstance(command, type) else ()
    elsewhere = [base for base in bases if base in GROUPS or base in INHERITED.values()]
    hidden = {field.name for base in elsewhere for field in fields(base)}
    return [flag for flag in flags_of(command) if not flag.group and flag.field not in hidden]


def lines_of(flag: Flag) -> Iterator[str]:
    """The paragraphs of a flag in Markdown."""
    also = f"; also {', '.join(f'`{alias}`' for alias in flag.aliases)}" if flag.aliases else ""
    default = f"default `{shown(flag.default)}`" if shown(flag.default) else "no default"
    yield f"#### `{flag.field.upper() if flag.positional else flag_of(flag.field)}`"
    yield ""
    yield f"{kind_of(flag.annotation)}; {'must be given' if flag.required else default}{also}"
    yield ""
    yield flag.about
    yield ""
    rules = rules_of(flag.owner)[flag.field] if isinstance(flag.owner, type) else ()
    if lines := [f"- {in_words(rule)}" for rule in rules if _is_shown(rule)]:
        yield from (*lines, "")


def kind_of(annotation: Any) -> str:
    """What a flag takes, in words: its kind or choices, and the ranges beside it."""
    rules = metadata_of(annotation)
    ranges = [text for rule in rules if isinstance(rule, Range) and (text := range_in_words(rule))]
    return ", ".join([_kind(annotation), *ranges])


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        arms = (arm for arm in get_args(annotation) if arm is not type(None) and get_origin(arm) is not Mapping)
        return " or ".join(_kind(arm) for arm in arms)  # a mapping is from Python alone
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in get_args(annotation))
    if get_origin(annotation) is tuple:
        return f"{_kind(get_args(annotation)[0])}s, with commas or spaces"
    return NAMES[annotation]


def range_in_words(rule: Range) -> str:
    """The numbers that may be given."""
    words = [
        f"from {rule.least:g}" if rule.least is not None else "",
        f"above {rule.above:g}" if rule.above is not None else "",
        f"to {_number(rule.most)}" if rule.most is not None else "",
        f"below {rule.below:g}" if rule.below not in (None, math.inf) else "",
        "finite" if rule.below == math.inf else "",
    ]
    return ", ".join(filter(None, (" ".join(filter(None, words[:4])), words[4])))


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def in_words(rule: Any) -> str:
    """A rule of :mod:`gsplit.config.rules` as a sentence."""
    if isinstance(rule, Mark):
        return MARKS[rule]
    if isinstance(rule, FixedInEpoch):
        where = _where(rule)
        return f"cannot change in the middle of an epoch{f', {where}' if where else ''}"
    if isinstance(rule, Only):
        return f"has an effect only {_where(rule)}"
    if isinstance(rule, AsksForNothing):
        value = "a value that takes all" if callable(rule.value) else f"`{shown(rule.value)}`"
        where = _where(rule.where)
        return f"{value} asks for nothing{f', {where}' if where else ''}, and so is never refused"
    assert isinstance(rule, Needed), rule
    return f"must be given where it has an effect: {rule.what}"


def _where(rule: Only) -> str:
    """Where a rule holds."""
    parts = []
    for name, values in rule.values.items():
        if name in FACTS:
            parts.append("where " + FACTS[name].format(" or ".join(map(str, values))))
        elif values == (None,):
            parts.append(f"without `{flag_of(name)}`")
        elif values == (True,):
            parts.append(f"with `{flag_of(name)}`")
        else:
            *others, last = (f"`{value}`" for value in (f"{flag_of(name)} {values[0]}", *values[1:]))
            parts.append(f"with {', '.join(others)}{' or ' if others else ''}{last}")
    return " and ".join(parts)


def _is_shown(rule: Any) -> bool:
    return isinstance(rule, (Mark, Only, AsksForNothing, Needed))


def _first(docstring: str | None) -> str:
    """The first paragraph of a docstring in one line."""
    return " ".join(inspect.cleandoc(docstring or "").partition("\n\n")[0].split())
