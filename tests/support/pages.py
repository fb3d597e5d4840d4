"""A page of runs as a reader meets it: in a headless Chromium where there is one, and through a parser.

Both tell the same, :class:`Seen`. What only a browser knows, the sizes of pictures and what it asked a network for, a
parser takes from the text.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from tools import browser

FOUND = browser.find()
WAYS = ["chromium", "parser"] if FOUND else ["parser-for-want-of-a-browser"]
SIZED = 200.0
"""What a parser says of a picture with a view box: some pixels."""
VOID = {"meta", "br", "hr", "img", "link", "input", "path", "use", "rect"}
SCRIPT = """() => {
  for (const each of document.querySelectorAll('details')) each.open = true;
  const cells = row => Array.from(row.cells, cell => cell.innerText.trim());
  const lines = {};
  for (const group of document.querySelectorAll('svg g[id*="-by-"]'))
    lines[group.id] = group.querySelector('path').getAttribute('d');
  return {
    title: document.title,
    text: document.body.innerText,
    pictures: Array.from(document.querySelectorAll('figure'), figure => {
      const svg = figure.querySelector('svg'), box = svg.getBoundingClientRect();
      const drawn = Array.from(svg.querySelectorAll('path'), path => path.getBoundingClientRect());
      return {label: figure.getAttribute('aria-label'), width: box.width, height: box.height,
              drawn: drawn.filter(each => each.width * each.height > 25).length,
              texts: Array.from(svg.querySelectorAll('text'), text => text.textContent)};
    }),
    tables: Array.from(document.querySelectorAll('table'), table => Array.from(table.rows, cells)),
    lines: lines,
    fetched: performance.getEntriesByType('resource').map(each => each.name),
  };
}"""


@dataclass
class Seen:
    title: str
    text: str
    pictures: list[dict]
    """Of each: label, width, height (pixels), drawn (shapes that can be seen), texts."""
    tables: list[list[list[str]]]
    """Cells, by rows."""
    lines: dict[str, str]
    """The path of each curve."""
    fetched: list[str]
    """What was asked for beside the page, and what a script complained of."""

    def rows(self, first: str) -> list[list[str]]:
        """The rows that begin with a cell, of all tables."""
        return [row[1:] for table in self.tables for row in table if row[0] == first]


def look_at(pages: list[Path], way: str) -> list[Seen]:
    return _in_browser(pages) if way == "chromium" else [_parsed(page) for page in pages]


def _in_browser(pages: list[Path]) -> list[Seen]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        environment = {**os.environ, **FOUND.environment}
        chromium = playwright.chromium.launch(executable_path=FOUND.path, env=environment, args=arguments)
        try:
            context = chromium.new_context(offline=True)
            return [_in_tab(context.new_page(), page.resolve().as_uri()) for page in pages]
        finally:
            chromium.close()


def _in_tab(tab, address: str) -> Seen:
    heard: list[str] = []
    tab.on("request", lambda request: heard.append(request.url))
    tab.on("console", lambda message: heard.append(message.text))
    tab.on("pageerror", lambda error: heard.append(str(error)))
    tab.goto(address)
    found = tab.evaluate(SCRIPT)
    found["fetched"] += [what for what in heard if what != address]
    return Seen(**found)


def _parsed(page: Path) -> Seen:
    parser = _Parser()
    parser.feed(page.read_text())
    return Seen(
        title=parser.title,
        text=" ".join("".join(parser.text).split()),
        pictures=parser.pictures,
        tables=[[[cell.strip() for cell in row] for row in table] for table in parser.tables],
        lines=parser.lines,
        fetched=parser.fetched,
    )


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.title, self.text, self.pictures, self.tables = "", [], [], []
        self.lines: dict[str, str] = {}
        self.fetched: list[str] = []
        self._open: list[str] = []
        self._curve = ""

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag not in VOID:
            self._open.append(tag)
        for name in ("src", "href", "xlink:href", "data", "action"):
            if not given.get(name, "#").startswith("#"):
                self.fetched.append(given[name])
        if tag in ("script", "link", "iframe", "object"):
            self.fetched.append(tag)
        if tag == "figure":
            self.pictures.append({"label": given["aria-label"], "width": 0, "height": 0, "drawn": 0, "texts": []})
        elif tag == "svg" and re.fullmatch(r"0 0 [\d.]+ [\d.]+", given["viewbox"]):
            self.pictures[-1] |= {"width": SIZED, "height": SIZED}
        elif tag == "path":
            self.pictures[-1]["drawn"] += len(given["d"].split()) >= 12
            if self._curve:
                self.lines[self._curve], self._curve = given["d"], ""
        elif tag == "text":
            self.pictures[-1]["texts"].append("")
        elif tag == "g" and "-by-" in given.get("id", ""):
            self._curve = given["id"]
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag, f"{tag} ends, but is not open"

    def handle_data(self, data):
        within = self._open[-1] if self._open else ""
        if within == "title":
            self.title += data
        elif within == "style":
            self.fetched += re.findall(r"@import|url\((?!#)", data)
        elif within == "text":
            self.pictures[-1]["texts"][-1] += data
        else:
            self.text.append(data)
            if {"td", "th"} & set(self._open):
                self.tables[-1][-1][-1] += data
