"""Labels that are no classes are refused with their line, whether or not a vertex set has them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.messages import says

import gsplit
from gsplit.errors import InputError


@pytest.mark.parametrize("number", [-2, -100, -999])
def test_negative_classes_are_refused(made, refused, tmp_path, number):
    labels = np.array([0, 1, number, 0, -1, 1])
    ids = np.array([5, 0, 1, 2, 3, 4])
    pd.DataFrame({"id": ids, "y": labels}).to_csv(tmp_path / "y.csv", index=False)
    pq.write_table(pa.table({"id": ids, "y": labels}), tmp_path / "y.parquet")
    np.save(tmp_path / "y.npy", labels)
    says(refused(labels="y.csv"), f"y.csv, line 4, {number}, --unlabelled {number}")
    says(refused(labels="y.parquet"), f"y.parquet, row 2, {number}")
    says(refused(labels="y.npy"), f"y.npy[2], {number}")
    with pytest.raises(InputError) as caught:
        gsplit.from_arrays(np.array([[0], [1]]), y=labels)
    says(caught.value, f"y[2], {number}")
    wanted = np.where(labels < 0, -1, labels)[np.argsort(ids)]
    for flag in ("unlabelled", "gaps"):
        assert made(labels="y.csv", **{flag: [str(number)]}).labels.tolist() == wanted.tolist()
    numbers = made(labels="y.csv", task="regression").labels[:, 0]
    assert numbers.tolist() == labels[np.argsort(ids)].tolist()


@pytest.mark.parametrize("value", [2, -1, 0.5, np.inf])
def test_columns_of_classes_hold_0_and_1(made, refused, tmp_path, value):
    marks = np.array([[0, 1], [1, np.nan], [0, value], [1, 1], [0, 0], [1, 0]])
    ids = [5, 0, 1, 2, 3, 4]
    pd.DataFrame(marks, ids, ["a", "b"]).to_csv(tmp_path / "y.csv", index_label="id")
    np.save(tmp_path / "y.npy", marks)
    says(refused(labels="y.csv"), f"y.csv, line 4, {value:g}, column 2")
    says(refused(labels="y.npy"), f"y.npy[2], {value:g}, column 2")
    marks[2, 1] = 1
    pd.DataFrame(marks, ids, ["a", "b"]).to_csv(tmp_path / "y.csv", index_label="id")
    np.testing.assert_array_equal(made(labels="y.csv").labels, marks[np.argsort(ids)])


def test_odd_labels_that_are_added_are_refused(made, tmp_path):
    made({"y.csv": "id,y\n" + "".join(f"{i},{i % 2}\n" for i in range(6))}, labels="y.csv")
    (tmp_path / "more.csv").write_text("src,dst\n6,0\n")
    (tmp_path / "more_y.csv").write_text("id,y\n2,1\n6,-7\n")
    with pytest.raises(InputError) as caught:
        gsplit.import_graph("graph", "grown", add="more.csv", labels="more_y.csv")
    says(caught.value, "more_y.csv, line 3, -7")


def test_a_word_that_the_flag_cannot_say_is_no_advice(made, caplog):
    rows = 'id,y\n3,"1,000"\n0,0\n1,1\n2,2\n4,1\n5,0\n'
    assert made({"y.csv": rows}, labels="y.csv").classes == ("0", "1", "1,000", "2")
    (said,) = [each.getMessage() for each in caplog.records if "1,000" in each.getMessage()]
    says(said, "y.csv, line 2")
    assert "--unlabelled" not in said


def test_a_plus_before_an_id_has_a_line(refused):
    says(refused({"ring.csv": "src,dst\n0,1\n1,+3\n3,0\n"}), "ring.csv, line 3, +3")


@pytest.mark.parametrize("columns", [1, 2])
def test_the_index_of_pandas_without_names_is_ids(made, refused, tmp_path, columns):
    marks = np.array([[0, 1], [1, 0], [1, 1], [0, 0], [1, 0], [0, 1]])[:, :columns]
    frame = pd.DataFrame(marks).sample(frac=1, random_state=0)
    frame.to_csv(tmp_path / "y.csv")
    assert (tmp_path / "y.csv").read_text().startswith(",0")
    wanted = marks[:, 0] if columns == 1 else marks
    np.testing.assert_array_equal(made(labels="y.csv").labels, wanted)
    np.testing.assert_array_equal(made(features="y.csv").features, marks)
    frame.iloc[:5].set_axis([7, 8, 9, 10, 11]).to_csv(tmp_path / "y.csv")
    says(refused(labels="y.csv", num_vertices=6), "y.csv, line 2, 7")
