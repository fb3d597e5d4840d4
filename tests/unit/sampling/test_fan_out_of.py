"""Fan-outs of relations by name: what they mean, and each mistake in one line."""

from __future__ import annotations

import pytest
from support.messages import line_with

from gsplit.config.sampling import fan_outs_by_name
from gsplit.data import Relation, Schema, VertexType
from gsplit.errors import InputError
from gsplit.sampling import Neighbours
from gsplit.sampling.named import fan_out_of_relations, rule_named

TYPES = tuple(VertexType(name, 9) for name in ("paper", "author", "place"))
SCHEMA = Schema(
    TYPES,
    (
        Relation("author", "writes", "paper"),
        Relation("paper", "cites", "paper"),
        Relation("paper", "in", "author"),
        Relation("place", "in", "author"),
        Relation("author", "at", "place"),
    ),
)


def test_names_become_numbers_of_relations():
    found = fan_out_of_relations({"place__in__author": (0, -1), "writes": (3, 0)}, (5, 5), SCHEMA, target=0)
    assert found == ((3, (0, -1)), (0, (3, 0)))
    rule = rule_named("neighbours", fan_out=(5, 5), fan_out_of=found, layers=2)
    assert isinstance(rule, Neighbours)
    assert rule.fan_outs(5) == [[3, 5, 5, 0, 5], [0, 5, 5, -1, 5]]
    assert fan_out_of_relations({}, (5, 5), SCHEMA, target=0) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("write=5,5", "--fan-out-of, 'write', did you mean writes"),
        ("in=5,5", "--fan-out-of, 'in', paper__in__author, place__in__author, say which"),
        ("writes=5", "--fan-out-of writes, 1, --fan-out, 2"),
        ("cites=1,1,paper__cites__paper=2,2", "--fan-out-of, paper__cites__paper, twice"),
        ("cites=0,1,writes=0,1", "--fan-out-of, 0 everywhere, hop 1, paper__cites__paper, author__writes__paper"),
        ("cites=5,0,writes=0,0", "--fan-out-of, 0 everywhere, hop 2"),
        ("at=5,5", "--fan-out-of author__at__place, no effect, place, drop it"),
    ],
)
def test_what_does_not_go_with_the_graph_is_refused(text, message):
    with pytest.raises(InputError, match=line_with(message)):
        fan_out_of_relations(fan_outs_by_name(text), (5, 5), SCHEMA, target=0)


def test_a_third_hop_comes_to_what_two_do_not():
    assert fan_out_of_relations({"at": (5, 5, 0)}, (5, 5, 5), SCHEMA, target=0) == ((4, (5, 5, 0)),)


def test_a_graph_of_one_relation_takes_none():
    one = Schema(TYPES[:1], SCHEMA.relations[1:2])
    with pytest.raises(InputError, match=line_with("--fan-out-of cites, no effect, --fan-out")):
        fan_out_of_relations({"cites": (5, 5)}, (5, 5), one, target=0)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a__b__c=5,5,d=0,-1", {"a__b__c": (5, 5), "d": (0, -1)}),
        ("a=b=5", {"a=b": (5,)}),
        ("is, at=5, 6 ,d= 1", {"is, at": (5, 6), "d": (1,)}),
        ("a=5,", {"a": (5,)}),
        (None, {}),
    ],
)
def test_a_name_goes_as_far_as_its_numbers(text, found):
    assert fan_outs_by_name(text) == found


@pytest.mark.parametrize(
    "text", ["a", "a=", "=5", "a=5,b", "a=2.5", "a=5,5,a=5,6", "a=-2", "a=2147483648", "a=5,,b=5", "a=x"]
)
def test_what_is_no_relation_with_numbers_is_refused(text):
    with pytest.raises(InputError, match=line_with("--fan-out-of")):
        fan_outs_by_name(text)
