"""A schema finds types and relations by name, knows what leads to the targets, and refuses what does not fit."""

from __future__ import annotations

import pytest

from gsplit.data import Relation, Schema, VertexType
from gsplit.errors import InputError

TYPES = VertexType("paper", 30), VertexType("author", 50), VertexType("institution", 4), VertexType("field", 0)
RELATIONS = (
    Relation("paper", "cites", "paper"),
    Relation("author", "writes", "paper"),
    Relation("author", "affiliated", "institution"),
    Relation("paper", "has", "field"),
    Relation("institution", "rev_affiliated", "author"),
    Relation("author", "cites", "author"),
)
SCHEMA = Schema(TYPES, RELATIONS)


def test_types_and_relations_are_found_by_name():
    assert [SCHEMA.type_number(each.name) for each in TYPES] == [0, 1, 2, 3]
    assert [SCHEMA.relation_number(str(each)) for each in RELATIONS] == list(range(6))
    assert SCHEMA.relation_number("writes") == 1
    assert [SCHEMA.ends(number) for number in range(6)] == [(0, 0), (1, 0), (1, 2), (0, 3), (2, 1), (1, 1)]
    assert SCHEMA.into(0) == [0, 1]
    assert SCHEMA.into(3) == [3]


def test_what_is_appended_moves_no_other():
    more = Schema((*TYPES, VertexType("venue", 2)), (*RELATIONS, Relation("venue", "prints", "paper")))
    assert [more.relation_number(str(each)) for each in RELATIONS] == list(range(6))
    assert more.type_number("venue") == 4


def test_hops_to_the_targets():
    assert SCHEMA.hops_to(0) == [0, 1, 2, None]
    assert SCHEMA.hops_to(3) == [1, 2, 3, 0]


def test_one_type_and_one_relation_is_what_a_graph_without_types_is():
    assert not Schema(TYPES[:1], RELATIONS[:1]).is_typed
    assert Schema(TYPES[:1], ()).is_typed
    assert Schema(TYPES[:2], RELATIONS[:1]).is_typed
    assert Schema(TYPES[:1], (*RELATIONS[:1], Relation("paper", "likes", "paper"))).is_typed


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SCHEMA.type_number("papers"), "there is no type 'papers'; did you mean paper?"),
        (lambda: SCHEMA.type_number("x"), "there are paper, author, institution, field"),
        (lambda: SCHEMA.relation_number("write"), "there is no relation 'write'; did you mean writes"),
        (lambda: SCHEMA.relation_number("autor__writes__paper"), "did you mean author__writes__paper"),
        (lambda: SCHEMA.relation_number("cites"), "'cites': paper__cites__paper, author__cites__author; say which"),
        (lambda: Schema((*TYPES, VertexType("paper", 1)), ()), "two types are called 'paper'"),
        (lambda: Schema(TYPES, RELATIONS[:1] * 2), "two relations are called 'paper__cites__paper'"),
        (lambda: Schema(TYPES[1:], RELATIONS), "relation paper__cites__paper: there is no type 'paper'"),
        (lambda: Schema(TYPES[:1], tuple(Relation("paper", str(i), "paper") for i in range(65_536))), "65,536 relat"),
        (lambda: Schema((), ()).type_number("a"), "there are none"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(InputError) as refused:
        make()
    assert message in str(refused.value)


def test_each_relation_is_listed_once():
    with pytest.raises(InputError, match=r"'zz'; there are paper__cites__paper, author__writes__paper$"):
        Schema(TYPES, RELATIONS[:2]).relation_number("zz")
