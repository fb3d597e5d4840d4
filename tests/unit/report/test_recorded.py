"""Runs that are damaged, empty, still going, or went on in another way; names that would break a page."""

from __future__ import annotations

import json
import re
from importlib import resources

import pytest
from support.messages import line_with

from gsplit.errors import InputError
from gsplit.report import __main__ as report
from gsplit.report.api import named
from gsplit.report.page import page
from gsplit.report.recorded import read_run

STAGES = {"sample": 0.1, "load": 0.1, "wait": 0.0, "forward": 0.5, "backward": 0.5, "reduce": 0.1, "step": 0.1}


def traffic(edges):
    return {"computed_edges": edges, "host_rows": 2 * edges, "host_to_device_bytes": 8 * edges, "level_2_vertices": 4}


def mini_batch(epoch, batch, trainer, edges=10, **more):
    place = {"epoch": epoch, "batch": batch, "trainer": trainer}
    return {"kind": "mini-batch", **place, "loss": 1.0, "stages": STAGES, "traffic": traffic(edges), **more}


def epoch_of(number, trainers=2, **more):
    how = {"trainers": trainers, "strategy": "split", "split_group": trainers, "cache": "none", "rows_cached": 0}
    numbers = {"loss": 1.0 / number, "valid_accuracy": 0.5, "seconds": 1.5, "stages": STAGES, "traffic": traffic(40)}
    return {"kind": "epoch", "epoch": number, **how, **numbers, **more}


def write(folder, lines, summary=None, config=None):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"fan_out": [3, 3], "hidden": 8, **(config or {})}))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if summary is not None:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


LINES = [mini_batch(1, 0, 0), mini_batch(1, 0, 1, 30), mini_batch(1, 1, 0), mini_batch(1, 1, 1), epoch_of(1)]
DAMAGED = {
    "no JSON": ("{", "metrics.jsonl, line 6, JSON"),
    "a list": ("[]", "line 6, JSON"),
    "another kind": ({"kind": "year"}, "line 6, kind"),
    "an epoch left out": (epoch_of(3), "line 6, epoch 3, epoch 1"),
    "a text for a number": (epoch_of(2, loss="low"), "line 6, loss"),
    "no number": ('{"kind": "mini-batch", "epoch": 2, "batch": 0, "trainer": 0, "loss": NaN}', "line 6, its stages"),
    "not finite": (json.dumps(epoch_of(2)).replace("1.5", "Infinity"), "line 6, seconds"),
    "too large": (json.dumps(epoch_of(2)).replace("1.5", "9" * 400), "line 6, seconds"),
    "no trainers": (epoch_of(2, trainers=0), "line 6, 1"),
    "below 0": (epoch_of(2, traffic={"host_rows": -1}), "line 6, traffic"),
    "cached rows": (epoch_of(2, rows_cached="many"), "line 6, rows_cached"),
    "nested": ("[" * 100_000, "line 6, JSON"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_line_is_named(tmp_path, monkeypatch, damage):
    line, message = DAMAGED[damage]
    run = write(tmp_path / "run", LINES, summary={})
    with (run / "metrics.jsonl").open("a") as file:
        file.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=line_with(message)):
        report.command(["run"])
    assert not (tmp_path / "report.html").exists()


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match=line_with("none")):
        read_run(tmp_path / "none")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=line_with("folder, config.json")):
        read_run(tmp_path / "folder")
    (tmp_path / "folder" / "config.json").write_text("{}")
    with pytest.raises(InputError, match=line_with("folder, config.json")):
        read_run(tmp_path / "folder")
    for lines in ([], LINES[:-1]):
        with pytest.raises(InputError, match=line_with("folder")):
            read_run(write(tmp_path / "folder", lines))
    (tmp_path / "folder" / "metrics.jsonl").unlink()
    with pytest.raises(InputError, match=line_with("folder")):
        read_run(tmp_path / "folder")
    write(tmp_path / "folder", LINES, summary={"test_accuracy": "high"})
    with pytest.raises(InputError, match=line_with("summary.json, test_accuracy")):
        read_run(tmp_path / "folder")


def test_a_run_at_work_may_be_writing_its_last_line(tmp_path):
    run = write(tmp_path / "run", LINES)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "mini-ba')
    found = read_run(run)
    assert len(found.epochs) == 1
    assert "not ended" in page([found])
    (run / "summary.json").write_text("{}")
    with pytest.raises(InputError, match=line_with("line 6")):
        read_run(run)


def test_only_epochs_of_the_last_kind_are_counted_together(tmp_path):
    alone = [mini_batch(1, 0, 0, 100), epoch_of(1, trainers=1)]
    run = read_run(write(tmp_path / "run", [*alone, mini_batch(2, 0, 0, 10), mini_batch(2, 0, 1, 30), epoch_of(2)]))
    assert [share.traffic["computed_edges"] for share in run.shares] == [10, 30]
    assert run.edge_skew == 1.0
    assert "1 of 2" in page([run])


def test_validations_within_an_epoch_stand_between_its_ends(tmp_path):
    within = {"kind": "validation", "epoch": 1, "batch": 1, "valid_accuracy": 0.75}
    found = read_run(write(tmp_path / "run", [LINES[0], within, *LINES[1:]]))
    assert found.validations == [(0.5, within)]
    text = page([found])
    assert "0.7500" in text
    points = re.findall(r'id="valid_accuracy-by-epoch-0".*?d="M ([\d.]+) \S+ \nL ([\d.]+) ', text, re.DOTALL)
    assert float(points[0][0]) < float(points[0][1])


@pytest.mark.parametrize(("metric", "best"), [("rmse", "0.2500"), ("macro_f1", "0.7500")])
def test_the_best_error_is_the_least(tmp_path, metric, best):
    lines = [epoch_of(n, **{"valid_accuracy": None, f"valid_{metric}": score}) for n, score in ((1, 0.75), (2, 0.25))]
    for line in lines:
        del line["valid_accuracy"]
    assert f"<b>{best}</b>" in page([read_run(write(tmp_path / "run", lines))])


def test_lines_that_are_lost_are_said(tmp_path):
    run = read_run(write(tmp_path / "run", [epoch_of(1), epoch_of(2)]))
    assert run.shares == []
    assert "The lines of mini-batches are missing" in page([run])


def test_nothing_validated_and_nothing_finite(tmp_path):
    lines = [mini_batch(1, 0, 0, loss=None), epoch_of(1, trainers=1, loss=None, valid_accuracy=None, traffic={})]
    text = page([read_run(write(tmp_path / "run", lines))])
    for words in ("Nothing was validated", "Nothing was moved", "One trainer did it all"):
        assert words in text


def test_names_do_not_break_the_page(tmp_path):
    """Of folders and flags: neither HTML nor formulas; the page's names and axes show them as they are."""
    odd = r"<b>$\x^</svg>&"
    other = tmp_path / "\udcff\n"
    runs = [read_run(write(tmp_path / odd.replace("/", "|"), LINES, config={"name": "<script>"}))]
    runs.append(read_run(write(other, LINES)))
    text = page(runs)
    assert "<b>" not in text.split("</style>")[1].replace("<b>0.5000</b>", "")
    assert "<script>" not in text
    assert r"&lt;b&gt;$\x^&lt;|svg&gt;&amp;" in text
    text.encode()


def test_only_a_page_is_replaced(tmp_path, capsys):
    run, out = write(tmp_path / "run", LINES), tmp_path / "page.html"
    report.command([str(run), "--out", str(out)])
    first = out.read_bytes()
    report.command([str(run), "--out", str(out)])
    assert out.read_bytes() == first  # the same run, the same page
    for name in (run / "config.json", tmp_path):
        with pytest.raises(InputError, match="--out"):
            report.command([str(run), "--out", str(name)])
    with pytest.raises(InputError, match="given twice"):
        report.command([str(run), f"{run}/../run"])
    with pytest.raises(InputError, match="missing: RUN"):
        report.command([])


def test_runs_of_one_name_are_told_apart(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    runs = named([read_run(write(tmp_path / name / "run", LINES)) for name in ("a", "b")])
    assert [run.name for run in runs] == [str(tmp_path / name / "run") for name in ("a", "b")]


def luminance(colour):
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_can_be_read_by_light_and_by_dark():
    """Contrast to their ground by WCAG 2: 4.5 of texts, 2 of bars and lines, whose names stand beside them."""
    style = resources.files("gsplit.pages").joinpath("frame.html.j2").read_text()
    found = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    assert len(found) == 2
    for text in found:
        named = dict(re.findall(r"--(\w+): (#\w{6})", text))
        assert len(named) == 22
        for name, colour in named.items():
            if name in ("paper", "card", "line", "grid"):
                continue
            darker, lighter = sorted((luminance(colour), luminance(named["card"])))
            assert (lighter + 0.05) / (darker + 0.05) >= (4.5 if name in ("ink", "muted") else 2), name
