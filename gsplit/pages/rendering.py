"""Templates made pages: each goes into the frame, which has the style sheet and the mark of whose page it is."""

from __future__ import annotations

from importlib import resources
from typing import Any

from gsplit import __version__
from gsplit.errors import InputError

PACKAGE = "gsplit.pages"
OWN = ("frame.html.j2", "picture.html.j2", "table.html.j2")
"""Templates of this package, which others extend and import by these names."""


def mark(writer: str) -> str:
    """Return what stands in the head of the pages of one writer, such as ``gsplit.report``."""
    return f'<meta name="generator" content="{writer}">'


def render(package: str, template: str, *, writer: str, title: str, **values: Any) -> str:
    """A page of a template.

    Args:
        package: where the template is.
        template: the name of its file.
        writer: who writes the page, for its mark.
        title: of the page.
        values: what the template names; texts are escaped.

    Raises:
        InputError: where Jinja is not installed.
    """
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError:
        raise InputError("a page needs Jinja: pip install jinja2, or 'gsplit[plots]'") from None

    def load(name: str) -> str:
        home = PACKAGE if name in OWN else package
        return resources.files(home).joinpath(name).read_text(encoding="utf-8")

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=FunctionLoader(load)
    )
    values = {"mark": mark(writer), "version": __version__, "title": title, **values}
    return environment.get_template(template).render(values)


def printable(text: str) -> str:
    """A text as a page can hold it, whatever a folder is called."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
