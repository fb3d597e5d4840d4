"""The types of vertices that a graph has, and the relations between them: the schema of a typed graph.

Each type numbers its vertices from 0 on. A relation has edges from the vertices of one type to those of another, or
of the same one. Numbers of types and relations are their positions, and draws depend on them: what is added to a
schema is appended, and moves no other.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gsplit.errors import InputError

MOST_RELATIONS = 65_535
"""Relations that a schema may have."""


@dataclass(frozen=True)
class VertexType:
    """A type of vertices: its name, and how many there are.

    Examples:
        >>> gsplit.data.VertexType("paper", 3).name
        'paper'
    """

    name: str
    num_vertices: int


@dataclass(frozen=True)
class Relation:
    """A relation: edges of one name from the vertices of a type, the source, to those of a type, the destination.

    Examples:
        >>> str(gsplit.data.Relation("author", "writes", "paper"))
        'author__writes__paper'
    """

    source: str
    name: str
    destination: str

    def __str__(self) -> str:
        return f"{self.source}__{self.name}__{self.destination}"

    @property
    def inside_one_type(self) -> bool:
        """True where sources and destinations are of one type."""
        return self.source == self.destination


@dataclass(frozen=True)
class Schema:
    """Types of vertices and relations between them, in the order of their numbers.

    Raises:
        InputError: for two types or relations of one name, a relation from or to a type that is not there, or more
            than 65,535 relations.

    Examples:
        >>> types = gsplit.data.VertexType("paper", 3), gsplit.data.VertexType("author", 5)
        >>> schema = gsplit.data.Schema(types, (gsplit.data.Relation("author", "writes", "paper"),))
        >>> schema.type_number("author"), schema.relation_number("writes"), schema.ends(0)
        (1, 0, (1, 0))
    """

    types: tuple[VertexType, ...]
    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        if len(self.relations) > MOST_RELATIONS:
            raise InputError(f"there are {len(self.relations):,} relations; at most {MOST_RELATIONS:,} are possible")
        for what, names in (("types", self.type_names), ("relations", list(map(str, self.relations)))):
            name, times = max(Counter(names).items(), key=lambda item: item[1], default=("", 1))
            if times > 1:
                raise InputError(f"two {what} are called {name!r}; give each a name of its own")
        for relation in self.relations:
            for name in (relation.source, relation.destination):
                if name not in self.type_names:
                    raise InputError(f"relation {relation}: {_unknown('type', name, self.type_names)}")

    @property
    def type_names(self) -> list[str]:
        """Names of the types."""
        return [each.name for each in self.types]

    @property
    def is_typed(self) -> bool:
        """True where there are several types, or not one relation: what a graph without types has no words for."""
        return len(self.types) != 1 or len(self.relations) != 1

    def type_number(self, name: str) -> int:
        """Return the number of a type.

        Raises:
            InputError: for a name that is not there, with the nearest ones.
        """
        if name not in self.type_names:
            raise InputError(_unknown("type", name, self.type_names))
        return self.type_names.index(name)

    def relation_number(self, name: str) -> int:
        """Return the number of a relation, by ``source__name__destination``, or by its name where one alone has it.

        Raises:
            InputError: for a name that is not there, with the nearest ones, or that several have.
        """
        whole = list(map(str, self.relations))
        if name in whole:
            return whole.index(name)
        found = [number for number, each in enumerate(self.relations) if each.name == name]
        if not found:
            names = dict.fromkeys(each.name for each in self.relations)
            raise InputError(_unknown("relation", name, whole, names))
        if len(found) > 1:
            raise InputError(f"relations called {name!r}: {', '.join(whole[each] for each in found)}; say which")
        return found[0]

    def ends(self, relation: int) -> tuple[int, int]:
        """Numbers of the source's type and the destination's type of a relation, given by its number."""
        each = self.relations[relation]
        return self.type_number(each.source), self.type_number(each.destination)

    def into(self, type_number: int) -> list[int]:
        """Numbers of the relations into a type."""
        return [number for number in range(len(self.relations)) if self.ends(number)[1] == type_number]

    def hops_to(self, target: int) -> list[int | None]:
        """Fewest relations on a path from each type to the type ``target``; None where no path leads there.

        A mini-batch has vertices of a type at hop h, of targets of that type, from this number of hops on.
        """
        hops: list[int | None] = [None] * len(self.types)
        reached, hop = {target}, 0
        while reached:
            for each in reached:
                hops[each] = hop
            hop += 1
            before = {self.ends(number)[0] for each in reached for number in self.into(each)}
            reached = {each for each in before if hops[each] is None}
        return hops


def _unknown(what: str, name: str, known: Iterable[str], short: Iterable[str] = ()) -> str:
    """Return that there is no type or relation of a name, and the nearest names, short ones among them."""
    names = list(known)
    near = difflib.get_close_matches(name, [*names, *short], n=2)
    said = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names[:20]) or 'none'}"
    return f"there is no {what} {name!r}; {said}"
