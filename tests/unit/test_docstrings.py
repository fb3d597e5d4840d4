"""Docstrings stand alone: a hover or an index shows them without what they explain.

So a docstring, also one under an assignment, begins with its subject: "Number of mini-batches of an epoch.", not "Of
an epoch." A first word in lower case is allowed where it is a name (in the file, or of a type with a shape, such as
``int64 [N]``), which no capital must change.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gsplit

ROOT = Path(gsplit.__file__).parent
TOOLS = Path(__file__).parents[2] / "tools"
GO_ON = re.compile(
    r"(And|But|Or|Nor|So|Because|Than|Then|Also|Too|Likewise|Otherwise|Else|"
    r"About|Above|After|Against|Among|As|At|Before|Behind|Below|Beside|Besides|Between|Beyond|By|During|Except|For|"
    r"From(?! .* to )|If|In|Inside|Into|Like|Near|Of|Off|On|Onto|Out|Outside|Over|Per|Since|Through|To|Toward|"
    r"Towards|Under|Until|Unless|Up|Upon|Via|While|With|Within|Without|"
    r"It|Its|They|Them|Their|Theirs|Those|These|Such|That|None|Not|Same|The same (for|as|of)|The other way)\b"
)
"""First words of what only goes on from the name above it; ``From ... to ...`` is a title."""


def documented(tree: ast.AST, name: str = "") -> Iterator[tuple[int, str, str]]:
    """(line, name, docstring) of the modules, classes, functions and assignments in ``tree``."""
    if (
        isinstance(tree, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and (text := ast.get_docstring(tree)) is not None
    ):
        yield tree.body[0].lineno, name or "the module", text
    before: ast.AST | None = None
    for node in ast.iter_child_nodes(tree):
        if isinstance(before, (ast.Assign, ast.AnnAssign)) and isinstance(node, ast.Expr):
            text = getattr(node.value, "value", None)
            if isinstance(text, str):
                target = before.target if isinstance(before, ast.AnnAssign) else before.targets[0]
                yield node.lineno, f"{name}{ast.unparse(target)}", text
        yield from documented(node, f"{name}{node.name}." if hasattr(node, "name") and node.name else name)
        before = node


def names_in(tree: ast.AST) -> set[str]:
    """Names that code has: identifiers, and strings that are one word."""
    names = set()
    for node in ast.walk(tree):
        names |= {getattr(node, field, None) for field in ("id", "attr", "arg", "name")}
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return {name for name in names if isinstance(name, str)}


def goes_on(text: str, names: set[str]) -> bool:
    """Whether a docstring begins in the middle of a sentence."""
    if GO_ON.match(text):
        return True
    first = re.match(r"[A-Za-z][\w-]*", text)
    if first is None:  # ``code``, a shape in brackets, a number
        return False
    word = first[0]
    return word.islower() and word not in names and not re.search(r"\d|_", word)


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("Of an epoch.", True),
        ("And wait until they are gone.", True),
        ("By rank.", True),
        ("The same for validation.", True),
        ("None: one more than the largest id.", True),
        ("added; those that were there already do not count", True),
        ("dropped", True),
        ("Number of mini-batches of an epoch.", False),
        ("Whether nothing is left.", False),
        ("int64 [N] ids.", False),
        ("[N] int64 ids.", False),
        ("hostRegister for all GPUs.", False),
        ("From a store to a layout: in pieces.", False),
        ("From the host.", True),
        ("``rows[order]``, in pieces.", False),
        ("presample: how many epochs to sample.", False),
    ],
)
def test_the_rule(text, bad):
    assert goes_on(text, {"presample"}) == bad


def test_every_docstring_is_found():
    code = 'A = 1\n"""a"""\nclass B:\n    """b"""\n    c: int\n    """c"""\n    def d(self):\n        """d"""\n'
    code += '        self.e = 1\n        """e"""\n        if self.e:\n            def f(): "f"\n'
    found = [(name, text) for _, name, text in documented(ast.parse(code))]
    expected = [("A", "a"), ("B.", "b"), ("B.c", "c"), ("B.d.", "d"), ("B.d.self.e", "e"), ("B.d.f.", "f")]
    assert found == expected


FILES = [*sorted(ROOT.rglob("*.py")), *sorted(TOOLS.glob("*.py"))]


def test_docstrings_begin_with_their_subject():
    assert len(FILES) > 10
    bad = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        names = names_in(tree)
        bad += [
            f"{path}:{line}: {name}: {text.splitlines()[0]}"
            for line, name, text in documented(tree)
            if goes_on(text, names)
        ]
    assert not bad, "\n".join(bad)
