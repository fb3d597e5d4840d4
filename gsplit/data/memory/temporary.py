"""Folders without names for users: they lie in the folder for temporary files and go with their objects.

Such a folder is ``.gsplit-UID.xxxxxxxx`` in TMPDIR, held locked like every folder that a process works in
(:mod:`gsplit.atomic_folder`). What a process left that was killed, the next one removes that makes such a folder.
"""

from __future__ import annotations

import logging
import os
import tempfile
import weakref
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from gsplit.atomic_folder import OUTPUTS, place_of
from gsplit.errors import InputError
from gsplit.host import held_back

Self = TypeVar("Self", bound="InFolder")

logger = logging.getLogger(__name__)

_living: weakref.WeakValueDictionary[Path, Temporary] = weakref.WeakValueDictionary()


class Temporary:
    """A new folder for temporary files. It goes when it is closed, when this is garbage, or at exit.

    Raises:
        InputError: where there is no folder for temporary files that can be written.
    """

    def __init__(self) -> None:
        place = _place()
        OUTPUTS.recover(place)
        held = ExitStack()
        try:
            with held_back():
                self.path = OUTPUTS.held_folder(place, held)
                # In a child that was forked all this is there again, and not the child's to remove.
                self._end = weakref.finalize(self, _remove, os.getpid(), place, self.path, held)
        except OSError as error:
            raise InputError(
                f"cannot write temporary files to {place.parent}: {error.strerror}; set TMPDIR to another folder"
            ) from None
        _living[self.path] = self

    @property
    def closed(self) -> bool:
        """True where the folder is gone."""
        return not self._end.alive

    def close(self) -> None:
        """Remove the folder and all that is in it; nothing happens the second time."""
        self._end()

    def __deepcopy__(self, _: object) -> Temporary:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _not_ours, ()  # another process finds the folder, and does not keep it


class InFolder(os.PathLike[str]):
    """An object in a folder, which stands for its path wherever one is taken.

    Where the folder is a temporary one it goes with this object: when that is closed, at the end of a ``with``, when
    it is garbage, or at exit. A folder with a name stays.
    """

    path: Path
    temporary: Temporary | None

    def __fspath__(self) -> str:
        """The path of the folder; InputError where this was closed, and the folder is gone."""
        if self.temporary is not None and self.temporary.closed:
            raise InputError(
                f"this {type(self).__name__} was closed, and its temporary folder is gone; make it again, or give it "
                "a folder that stays with out="
            )
        return str(self.path)

    def close(self) -> None:
        """Remove the folder if it is a temporary one; otherwise nothing happens."""
        if self.temporary is not None:
            self.temporary.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _not_ours() -> None:
    """Stand in for the temporary folder of another process."""


def temporary_of(path: Path) -> Temporary | None:
    """Return the temporary folder of this process that a path lies in, which lives while the caller keeps it."""
    path = path.resolve()
    above = (_living.get(folder) for folder in (path, *path.parents))
    return next((held for held in above if held is not None and not held.closed), None)


def _place() -> Path:
    """A place in the folder for temporary files beside which only this user's folders lie."""
    try:
        return place_of(Path(tempfile.gettempdir()) / f"gsplit-{os.getuid()}")
    except FileNotFoundError as error:
        raise InputError(f"{error}; make room, or set TMPDIR") from None


def _remove(owner: int, place: Path, folder: Path, held: ExitStack) -> None:
    if os.getpid() != owner:
        return
    with held, held_back():
        try:
            OUTPUTS.roll_back(place, folder)
        except FileNotFoundError:  # another program cleans that folder, too
            pass
        except (OSError, InputError) as error:
            logger.warning("%s could not be removed: %s; remove it by hand", folder, error)
