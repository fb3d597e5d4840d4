"""The reference of all flags, rendered from the fields of the configurations and the rules beside them.

``make docs`` puts the text of :func:`render` into docs/reference/flags.md, in place of its marker; nothing of it is
kept in the repository. A field says all of it: its annotation the kind, the choices and the range, what stands beside
that the rules, its default the default, and the docstring under it what it is.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
import types
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from gsplit.config.features import FeaturesConfig
from gsplit.config.fields import Range, flag_of, metadata_of
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
from gsplit.data.build import BuildOptions
from gsplit.data.importers.keys import Keys
from gsplit.data.importers.named_edges import IdOptions
from gsplit.data.importers.vertex_files import VertexFiles
from gsplit.doctor.__main__ import DoctorConfig
from gsplit.report.__main__ import PageConfig

GROUPS = (
    RunConfig,
    EvaluationConfig,
    ModelConfig,
    SamplingConfig,
    OptimisationConfig,
    ObjectiveConfig,
    ParallelConfig,
    FeaturesConfig,
)
"""The groups of TrainConfig, in the order of the page."""
COMMANDS: dict[str, tuple[type, ...]] = {
    "gsplit train": GROUPS,
    "gsplit partition": (PartitionConfig,),
    "gsplit import": (VertexFiles, Keys, IdOptions, BuildOptions),
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


@dataclass(frozen=True)
class Flag:
    """One flag as the page shows it."""

    name: str
    kind: str
    default: str
    what: str
    rules: tuple[str, ...] = ()
    positional: bool = False
    aliases: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Its paragraphs in Markdown."""
        yield f"#### `{self.name.upper() if self.positional else flag_of(self.name)}`"
        yield ""
        also = f"; also {', '.join(f'`{alias}`' for alias in self.aliases)}" if self.aliases else ""
        yield f"{self.kind}; {self.default}{also}"
        yield ""
        yield self.what
        yield ""
        if self.rules:
            yield from (f"- {rule}" for rule in self.rules)
            yield ""


def render() -> str:
    """The text of the reference: each command, its groups, their flags."""
    lines: list[str] = []
    for command in (*COMMANDS, *(each for each in FUNCTIONS if each not in COMMANDS)):
        lines += [f"## {command}", ""]
        if function := FUNCTIONS.get(command):
            lines += [_first(function.__doc__), ""]
            lines += [line for flag in flags_of_function(function) for line in flag.lines()]
        configurations = COMMANDS.get(command, ())
        for configuration in configurations:
            if len(configurations) > 1:
                lines += [f"### {title(configuration)}", ""]
            lines += [_first(configuration.__doc__), ""]
            if configuration in INHERITED:
                lines += ["It also takes all flags of `gsplit train`.", ""]
            lines += [line for flag in flags_of(configuration) for line in flag.lines()]
    return "\n".join(lines)


def title(configuration: type) -> str:
    """The name of a group of flags: ``VertexFiles`` is *Vertex files*."""
    words = re.findall("[A-Z][a-z]+", configuration.__name__.removesuffix("Config"))
    return " ".join(words).capitalize()


def flags_of(configuration: type) -> list[Flag]:
    """The flags of a configuration, without those of the ones that the page shows elsewhere."""
    shown: set[str] = set()
    for base in configuration.__mro__[1:]:
        if base in GROUPS or base in INHERITED.values():
            shown |= {field.name for field in fields(base)}
    docs = docstrings(configuration)
    hints = get_type_hints(configuration, include_extras=True)
    rules = rules_of(configuration)
    return [
        Flag(
            name=field.name,
            kind=kind_of(hints[field.name]),
            default=_default(field),
            what=docs[field.name],
            rules=tuple(in_words(rule) for rule in rules[field.name] if _is_shown(rule)),
            positional=_is_positional(hints[field.name]),
            aliases=tuple(
                alias for each in metadata_of(hints[field.name]) for alias in getattr(each, "aliases", None) or ()
            ),
        )
        for field in fields(configuration)
        if field.name not in shown
    ]


def flags_of_function(function: Callable[..., object]) -> list[Flag]:
    """The flags that are arguments of a command's function, but for those that are groups of flags."""
    hints = get_type_hints(function, include_extras=True)
    about = inspect.getdoc(function) or ""
    texts: dict[str, str] = {}
    for line in about.partition("Args:\n")[2].splitlines():
        name, colon, text = line.strip().partition(": ")
        if line.startswith("    ") and not line.startswith("     ") and colon:
            texts[name] = text
        elif texts and line.strip():
            texts[next(reversed(texts.keys()))] += f" {line.strip()}"
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in texts:
            needed = parameter.default is inspect.Parameter.empty
            default = "must be given" if needed else _value(parameter.default)
            kind = kind_of(hints[name])
            found.append(Flag(name, kind, default, texts[name], positional=_is_positional(hints[name])))
    return found


def docstrings(configuration: type) -> dict[str, str]:
    """The docstring under each field, of a class and its bases, in one line each."""
    found: dict[str, str] = {}
    for base in reversed(configuration.__mro__):
        if base.__module__.partition(".")[0] == "gsplit":
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            assert isinstance(tree, ast.ClassDef)
            for field, after in zip(tree.body, tree.body[1:], strict=False):
                if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                    continue
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    found[field.target.id] = " ".join(str(after.value.value).replace("%%", "%").split())
    return found


def kind_of(annotation: Any) -> str:
    """What a flag takes, in words: its kind or choices, and the ranges beside it."""
    rules = metadata_of(annotation)
    ranges = [text for rule in rules if isinstance(rule, Range) and (text := range_in_words(rule))]
    return ", ".join([_kind(annotation), *ranges])


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(_kind(arm) for arm in get_args(annotation) if arm is not type(None))
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
        value = "a value that takes all" if callable(rule.value) else f"`{_shown(rule.value)}`"
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


def _is_positional(annotation: Any) -> bool:
    return tyro.conf.Positional in metadata_of(annotation)


def _default(field: Field[Any]) -> str:
    return "must be given" if field.default is MISSING else _value(field.default)


def _value(value: Any) -> str:
    if value is None or value in ((), ""):
        return "no default"
    return f"default `{_shown(value)}`"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _first(docstring: str | None) -> str:
    """The first paragraph of a docstring in one line."""
    return " ".join(inspect.cleandoc(docstring or "").partition("\n\n")[0].split())
