"""What a user names as package.module:Class, such as a model or an engine."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from gsplit.errors import InputError


def object_named(path: str, flag: str) -> Any:
    """The object that package.module:Name names, looked for in the working directory too; None where there is none.

    Args:
        path: package.module:Name.
        flag: names it in messages.

    Raises:
        InputError: where there is no such module.
    """
    module_name, _, name = path.partition(":")
    if module_name.endswith(".py"):
        raise InputError(f"{flag} {path}: a module is named without .py: {flag} {module_name[:-3]}:{name}")
    _look_in(Path.cwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{flag} {path}: there is no module {error.name!r} to import, here or on PYTHONPATH"
        ) from None
    except (ValueError, TypeError) as error:
        raise InputError(f"{flag} {path} is no package.module:Class: {error}") from None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _look_in(folder: Path) -> None:
    """Let modules of a folder be imported: before others, or after them where it has another package of our name."""
    if str(folder) in sys.path:
        return
    package = folder / __name__.partition(".")[0]
    ours = Path(__file__).parents[1]
    sys.path.insert(len(sys.path) if package.is_dir() and not package.samefile(ours) else 0, str(folder))
