"""Which vertices are asked for, and which rows of the result are theirs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import lay_out
from support.messages import line_with

from gsplit.errors import InputError
from gsplit.predict.vertices import Request, asked_vertices


@pytest.fixture(scope="module")
def layout(tiny_graph, tmp_path_factory):
    return lay_out(tiny_graph(), tmp_path_factory.mktemp("vertices"), parts=2)


@pytest.mark.parametrize(("which", "ids"), [("all", [0, 1, 2, 3, 4]), ("train", [0, 1]), ("test", [3])])
def test_names_ascend_in_global_ids(layout, which, ids):
    assert asked_vertices(which, layout).tolist() == ids


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64])
def test_files_keep_order_and_duplicates(layout, tmp_path, dtype):
    np.save(tmp_path / "ids.npy", np.array([4, 0, 4], dtype))
    (tmp_path / "ids").write_text("4\n0\n4")
    for name in ("ids.npy", "ids"):
        ids = asked_vertices(str(tmp_path / name), layout)
        assert (ids.dtype, ids.tolist()) == (np.int64, [4, 0, 4])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ids.txt", b"0\n5\n", "ids.txt, 2, 5, 0 .. 4"),
        ("ids.txt", b"0\n-1\n", "ids.txt, 2, -1"),
        ("ids.txt", b"0\nseven\n", "ids.txt, seven"),
        ("ids.txt", b"0 1\n2 3\n", "ids.txt, int64, (2, 2)"),
        ("ids.txt", b"0.5\n", "ids.*"),
        ("ids.txt", b"", "ids.*"),
        ("ids.txt", b"\xff\xfe\x00", "ids.*"),
        ("ids.npy", b"", "ids.*"),
        ("ids.npy", b"\x93NUMPY\x01\x00", "ids.*"),
        ("ids.npy", b"0\n1\n", "ids.*"),
    ],
)
def test_files_that_are_refused(layout, tmp_path, recwarn, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=line_with(message)):
        asked_vertices(str(tmp_path / name), layout)
    assert not recwarn.list


def test_a_file_that_is_not_there(layout):
    with pytest.raises(InputError, match=line_with("trian, --vertices, all, train, valid, test")):
        asked_vertices("trian", layout)


def test_numbers_that_are_no_ids(layout):
    with pytest.raises(InputError, match=line_with("float64")):
        asked_vertices([0.0, 1.0], layout)


@given(st.data())
def test_every_row_is_filled_once_with_its_vertex(data):
    n = data.draw(st.integers(1, 12))
    permutation = np.array(data.draw(st.permutations(range(n))))
    asked = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=30)))
    cut = data.draw(st.integers(0, n))
    request = Request(asked, permutation)
    result = np.full(request.num_rows, -1)
    for begin, end in ((0, cut), (cut, n)):
        own = request.of_part(begin, end)
        assert len(set(own.tolist())) == len(own)
        assert ((own >= begin) & (own < end)).all()
        rows, positions = request.rows(own)
        assert (result[rows] == -1).all()
        result[rows] = permutation[own[positions]]
    assert result.tolist() == asked.tolist()
    assert permutation[request.in_order()].tolist() == list(dict.fromkeys(asked.tolist()))
