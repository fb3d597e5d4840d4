"""Drawing for a page, as SVG: axes in the page's style, and bars of two kinds.

Matplotlib draws. Text stays text, which a reader can select and a browser sets in its own fonts. Colours are
names of CSS variables, so that the page decides about them, by light and by dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gsplit.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SERIES = 8
COLOURS = ("ink", "muted", "grid", *(f"{family}{index}" for family in "cs" for index in range(SERIES)))
"""Variables of the page's style sheet: runs have c0, c1, ..., their stages, trainers and such s0, s1, ..."""
PLACEHOLDER = "#fedc"
"""Begins the colours that Matplotlib is given in place of the names: the number of one in :data:`COLOURS` follows."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gsplit",
    "text.parse_math": False,
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.titlesize": 10.0,
    "axes.axisbelow": True,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing with its words."""

    title: str
    svg: str
    legend: Sequence[tuple[str, str]] = ()
    """Meaning of each colour, where the page's own legend of runs does not have it."""
    note: str = ""


def colour(name: str) -> str:
    """Return the value for Matplotlib of a variable of the style sheet."""
    return f"{PLACEHOLDER}{COLOURS.index(name):02x}"


def series(index: int, family: str = "c") -> str:
    """The variable of the n-th run ("c"), stage or trainer ("s"); they come round again."""
    return f"{family}{index % SERIES}"


@contextmanager
def drawing(width: float, height: float, panels: int = 1) -> Iterator[tuple[Sequence[Axes], list[str]]]:
    """Axes side by side, and a list that holds the SVG when the block has ended; sizes in inches.

    Raises:
        InputError: where Matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("a page needs Matplotlib: pip install matplotlib, or 'gsplit[plots]'") from None
    named: dict[Any, Any] = {key: colour("muted") for key in ("xtick.color", "ytick.color", "axes.labelcolor")}
    named |= {"text.color": colour("ink"), "axes.edgecolor": colour("grid"), "grid.color": colour("grid")}
    with mpl.rc_context(dict(mpl.rcParamsDefault) | STYLE | named):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.subplots(1, panels, squeeze=False)[0]
        for each in axes:
            each.patch.set_alpha(0)
            each.grid(axis="both", linewidth=0.8)
        written: list[str] = []
        yield axes, written
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    written.append(_inline(file.getvalue()))


def _inline(svg: str) -> str:
    """The SVG element alone, scaled by the page, with the page's colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r' xmlns:?\w*="[^"]*"', "", svg)  # HTML knows both, and so no address stands on the page
    return re.sub(rf"{PLACEHOLDER}(\w\w)", lambda found: f"var(--{COLOURS[int(found[1], 16)]})", svg)


def stacked(
    rows: Mapping[str, Mapping[str, float]], title: str, unit: str, write: Callable[[float], str], first: int = 0
) -> Picture:
    """A bar for each row, of pieces whose names are the legend; the sum is written behind it.

    Args:
        rows: by name, in each the pieces by theirs.
        title: of the picture.
        unit: of the sums.
        write: a sum as a text.
        first: number of the first piece's colour.
    """
    names = list(dict.fromkeys(name for pieces in rows.values() for name in pieces))
    looks = {name: series(first + index, "s") for index, name in enumerate(names)}
    with drawing(9.6, 0.75 + 0.36 * len(rows)) as ((axes,), svg):
        most = max((sum(pieces.values()) for pieces in rows.values()), default=0) or 1
        for place, pieces in enumerate(rows.values()):
            left = 0.0
            for name, value in pieces.items():
                axes.barh(place, value, left=left, height=0.62, color=colour(looks[name]))
                left += value
            axes.text(left + most / 100, place, write(left), va="center", color=colour("muted"))
        _rows(axes, list(rows), most * 1.12)
        axes.set(xlabel=unit)
    return Picture(title=title, svg=svg[0], legend=[(look, name) for name, look in looks.items()])


def grouped(
    groups: Mapping[str, Sequence[float]],
    looks: Mapping[str, str],
    title: str,
    unit: str,
    write: Callable[[float], str],
    mark: float | None = None,
) -> Picture:
    """Bars side by side, in each group one for each name, with its value behind it.

    Args:
        groups: by name, in each the values in the order of ``looks``.
        looks: what is compared, by name, each with its colour.
        title: of the picture.
        unit: of the values.
        write: a value as a text.
        mark: where a line is drawn.
    """
    height = 0.8 / max(1, len(looks))
    with drawing(9.6, 0.75 + len(groups) * max(0.36, 0.19 * len(looks))) as ((axes,), svg):
        most = max((value for values in groups.values() for value in values), default=0) or 1
        if mark is not None:
            axes.axvline(mark, color=colour("muted"), linewidth=1, zorder=0)
        for place, values in enumerate(groups.values()):
            for index, (value, look) in enumerate(zip(values, looks.values(), strict=True)):
                at = place + (index - (len(looks) - 1) / 2) * height
                axes.barh(at, value, height=height * 0.86, color=colour(look))
                if value:
                    axes.text(value + most / 100, at, write(value), va="center", color=colour("muted"), fontsize=9)
        _rows(axes, list(groups), most * 1.12)
        axes.set(xlabel=unit)
    return Picture(
        title=title, svg=svg[0], legend=[(look, name) for name, look in looks.items()] if len(looks) > 1 else ()
    )


def _rows(axes: Axes, names: Sequence[str], most: float) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, most)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", labelcolor=colour("ink"))
