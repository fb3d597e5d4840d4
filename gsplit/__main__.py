"""``gsplit COMMAND ...``, also ``python -m gsplit COMMAND ...``: all commands behind one name.

``gsplit train`` is ``python -m gsplit.train``, and so on. The module of a command is imported when it is called, so
that only those that need PyTorch wait for it.
"""

from __future__ import annotations

import importlib
from functools import partial

from gsplit import __version__, cli, starting
from gsplit.terminal import say

PROG = "gsplit"
ABOUT = """Split-parallel training of graph neural networks: gsplit COMMAND --help says more.

gsplit --version prints the version."""
COMMANDS = {
    "import": "Make a graph store.",
    "export": "Write a graph store for another library.",
    "info": "Check a graph store or a layout and print what is in it.",
    "partition": "Make a layout: partition a graph store and relabel it.",
    "report": "Write a page about runs; of a layout, how good it is for a training.",
    "train": "Train a model on a layout.",
    "predict": "Predict classes, logits or embeddings with the best model of a run.",
    "doctor": "Say what this host has, and whether a training fits.",
}
"""Each command, with what it does."""
PART_OF = {"import": "data", "export": "data", "info": "data"}
"""Commands that are sub-commands of ``python -m gsplit.PACKAGE``, with the package; all others are a package."""


def command(arguments: list[str], prog: str = PROG) -> None:
    """Run ``COMMAND ARGUMENTS``; ``prog`` is what complaints call the command."""
    if arguments[:1] == ["--version"]:
        say(f"gsplit {__version__}")
        return
    name = cli.choose(COMMANDS, arguments, prog=prog, about=ABOUT)
    if name is None:
        return
    package = importlib.import_module(f"gsplit.{PART_OF.get(name, name)}.__main__")
    if name in PART_OF:
        package.command(arguments, prog=prog)
    else:
        package.command(arguments[1:], prog=f"{prog} {name}")


def main(prog: str = PROG) -> None:
    """Run the command line of this process, and exit."""
    starting.watch_script()
    cli.main(partial(command, prog=prog))


if __name__ == "__main__":
    main("python -m gsplit")
