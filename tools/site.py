"""What ``mkdocs`` calls to make the site of docs/: pages that are generated, and links that lead out of docs/.

The documents are written to be read in the repository, so they link to files beside docs/, such as CONTRIBUTING.md.
On the site these files lie under their own paths, README.md is the first page, and docs/reference/flags.md has all
flags in place of its marker. Whatever a page links to is there, or the build fails.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.flags_page import render

if TYPE_CHECKING:
    from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
FLAGS = "reference/flags.md"
MARKER = "<!-- flags -->"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):<code>~?")
FENCES = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add README as the first page, and whatever pages link to outside docs/, and what that links to."""
    from mkdocs.structure.files import File

    named = {file.src_uri for file in files}
    waiting = [ROOT / "README.md", *(ROOT / "docs" / uri for uri in named if uri.endswith(".md"))]
    while waiting:
        source = waiting.pop()
        if source.suffix == ".md" and (uri := uri_of(source)) not in named:
            named.add(uri)
            files.append(generated(config, uri, moved_text(source.read_text(), source)))
        text = listing(source) if source.is_dir() else source.read_text() if source.suffix == ".md" else ""
        for target in targets(text, source):
            if (uri := uri_of(target)) not in named and not target.is_relative_to(ROOT / "docs"):
                if target.suffix == ".md":
                    waiting.append(target)
                    continue
                named.add(uri)
                if target.is_dir():
                    waiting.append(target)
                    files.append(generated(config, uri, moved_text(listing(target), target)))
                else:
                    files.append(File.generated(config, uri, abs_src_path=str(target)))
    return files


def generated(config: Any, uri: str, content: str) -> File:
    """A page that is in no file of docs/, whether the navigation has it or not."""
    from mkdocs.structure.files import File, InclusionLevel

    return File.generated(config, uri, content=content, inclusion=InclusionLevel.NOT_IN_NAV)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the flags where they belong, and let links out of docs/ lead to the files on the site."""
    uri = page.file.src_uri
    if page.file.generated_by:
        return markdown
    return moved_text(markdown.replace(MARKER, render()) if uri == FLAGS else markdown, ROOT / "docs" / uri)


def on_page_content(html: str, **_: Any) -> str:
    """Show names as code alone where docstrings have them with a role, as in :class:`Block`."""
    return ROLE.sub(r"<code>", html)


def uri_of(path: Path) -> str:
    """Where a file of the repository lies on the site."""
    if path == ROOT / "README.md":
        return "index.md"
    home = ROOT / "docs" if path.is_relative_to(ROOT / "docs") else ROOT
    uri = path.relative_to(home).as_posix()
    return f"{uri}/index.md" if path.is_dir() else uri


def targets(text: str, source: Path) -> list[Path]:
    """The files of the repository that a text links to."""
    found = (match[2].partition("#")[0] for match in LINK.finditer(FENCES.sub("", text)))
    folder = source if source.is_dir() else source.parent
    paths = [(folder / path).resolve() for path in found if path and "://" not in path]
    return [path for path in paths if path.exists() and path.is_relative_to(ROOT)]


def moved_text(text: str, source: Path) -> str:
    """A text with its links as they are on the site; those that lead nowhere stay, and the build complains."""
    folder = source if source.is_dir() else source.parent

    def moved(match: re.Match[str]) -> str:
        path, sharp, anchor = match[2].partition("#")
        target = (folder / path).resolve()
        if not path or "://" in path or not target.exists() or not target.is_relative_to(ROOT):
            return match[0]
        relative = os.path.relpath(uri_of(target), os.path.dirname(uri_of(source)) or ".")
        return f"{match[1]}{relative}{sharp}{anchor}{match[3]}"

    return LINK.sub(moved, text)


def listing(folder: Path) -> str:
    """A page for a folder: its files, with what their first line says."""
    lines = [f"# {folder.name}", ""]
    for path in sorted(folder.iterdir()):
        if path.suffix in (".py", ".ipynb"):
            first = path.read_text().partition("\n")[0].strip('"') if path.suffix == ".py" else "A notebook."
            lines.append(f"- [{path.name}]({path.name}): {first}")
    return "\n".join(lines) + "\n"
