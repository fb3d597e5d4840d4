"""The base of an open graph store and an open layout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsplit.data.graph import GraphArrays
from gsplit.data.ids.kept_ids import KeptIds
from gsplit.data.memory.temporary import InFolder, Temporary


@dataclass(frozen=True, kw_only=True, repr=False)
class OpenFolder(InFolder):
    """A graph in an open folder; the arrays are mapped, and stay readable when the folder goes."""

    path: Path
    name: str
    checksum: str
    """SHA-256 over the checksums of all arrays."""
    description: dict[str, Any]
    graph: GraphArrays
    temporary: Temporary | None = None
    """The temporary folder that holds it and goes with it; None where it lies in a folder with a name."""

    def ids(self) -> KeptIds | None:
        """Return what the vertices are called, by global id, where the store was made with ids of any kind.

        Raises:
            InputError: where the file of ids is missing or damaged.
        """
        described = self.description.get("ids")
        return None if described is None else KeptIds(self.path, described, self.graph.num_vertices)

    def shown(self, vertex: int) -> str:
        """Return what messages call a vertex, by its global id."""
        ids = self.ids()
        return str(vertex) if ids is None else ids.shown(vertex)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """[C] names of the classes; None where they have numbers alone."""
        return self.graph.classes

    def __deepcopy__(self, _: object) -> OpenFolder:
        return self  # it cannot be changed

    def __repr__(self) -> str:
        where = "temporary" if self.temporary is not None else self.path
        return f"<{type(self).__name__} {self.name} ({where}): {self.graph.in_words}>"
