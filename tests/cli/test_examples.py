"""What is in examples/ runs, and does what it says.

Two scripts and a notebook run as a user runs them, in processes of their own, because what they define has to be
found by trainers or because a notebook is no file. The others run in this process, by trainers that stay for all
tests: that is as good a test of what they say, and takes a tenth of the time.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
import numpy as np
import pytest
from support.commands import python
from support.devices import HIDDEN, hide
from support.libraries import needs_dgl

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SCRIPTS = {
    *("own_csv", "links", "several_types", "pyg_model", "dgl_model", "own_loop", "compare_strategies", "ray_train")
}
NOTEBOOKS = {"first_steps", "look_at_a_run", "several_types"}


@pytest.fixture
def here(in_pool, monkeypatch, capsys):
    """here(name, *arguments): run a script in this process; what it printed."""
    hide(monkeypatch)

    def run(name, *arguments):
        script = str(EXAMPLES / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        with in_pool():
            runpy.run_path(script, run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """Environment of a process of its own, which puts nothing anywhere but into ``tmp_path``."""
    for name in ("TMPDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    for name, value in HIDDEN.items():
        monkeypatch.setenv(name, value)


def apart(name, *arguments, folder):
    """What a script says that is started in ``folder``."""
    return python(EXAMPLES / f"{name}.py", *arguments, cwd=folder).stdout


def accuracies(text):
    return [float(number) for number in re.findall(r"accuracy\D* (\d\.\d+)", text)]


def test_every_example_is_run_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SCRIPTS
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == NOTEBOOKS


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_script_says_how_to_run_it(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert f"\n    python examples/{name}.py [FOLDER]\n" in text
    assert 'if __name__ == "__main__":' in text
    assert len(text.splitlines()) <= 70


def test_files_of_ones_own_are_learned_and_predicted_and_that_twice(here, tmp_path):
    printed = here("own_csv", tmp_path / "new" / "folder")
    assert accuracies(printed)[0] > 0.85  # of 3 topics
    predicted = re.findall(r"paper (\d+): topic (\d) predicted, (\d) is right", printed)
    assert [int(paper) for paper, _, _ in predicted] == [0, 1, 2, 3, 4]
    topics = np.loadtxt(tmp_path / "new" / "folder" / "topics.csv", delimiter=",", skiprows=1, dtype=int)
    assert [int(right) for _, _, right in predicted] == topics[:5, 1].tolist()
    assert sum(topic == right for _, topic, right in predicted) >= 4
    assert here("own_csv", tmp_path / "new" / "folder") == printed


def test_links_of_ones_own_are_learned_and_named(here, tmp_path):
    printed = here("links", tmp_path / "folder")
    held_out = re.search(r"held out (\d+)% are among the ten best", printed)
    assert int(held_out[1]) > 40  # of 800 songs; 47 if all of a band were equal
    rows = re.findall(r"^band 0 song 0,(band \d+) song (\d+),(\d+),(\S+)$", printed, re.MULTILINE)
    assert [int(rank) for *_, rank, _ in rows] == list(range(1, 11))
    scores = [float(score) for *_, score in rows]
    assert scores == sorted(scores, reverse=True)
    assert sum(band == "band 0" for band, *_ in rows) >= 6  # of 20 of its band, without those of its edges


def test_pyg_says_of_the_trained_model_what_gsplit_says(here, tmp_path):
    ours, pygs = accuracies(here("pyg_model", tmp_path))
    assert ours == pygs > 0.7  # of 4 classes


def test_papers_are_learned_by_their_authors_and_venues(here, tmp_path):
    printed = here("several_types", tmp_path)
    assert accuracies(printed)[0] > 0.65  # of 3 topics; their own features tell nothing
    assert "vectors of 150 authors, 32 wide" in printed


@pytest.mark.slow
@needs_dgl
def test_dgl_says_of_the_trained_model_what_gsplit_says(alone, tmp_path):
    printed = apart("dgl_model", folder=tmp_path)
    ours, dgls = accuracies(printed)
    assert ours == dgls > 0.8  # of 4 classes
    run = Path(re.search(r"the run is in (.*)", printed)[1])
    assert run.parent.parent == tmp_path
    assert (run / "model.pt").is_file()


@pytest.mark.slow
def test_ray_starts_trainers(tmp_path, monkeypatch):
    hide(monkeypatch)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # its sockets have names of at most 107 bytes
        monkeypatch.setenv("RAY_TMPDIR", short)
        printed = apart("ray_train", tmp_path / "out", folder=tmp_path)
    of_workers, last = accuracies(printed)[:-1], accuracies(printed)[-1]
    assert set(of_workers) == {last}
    assert last > 0.5  # of 4 classes
    assert (tmp_path / "out" / "run" / "model.pt").is_file()


@pytest.mark.parametrize(
    ("name", "library", "package"),
    [
        ("dgl_model", "dgl", "gsplit[dgl]"),
        ("pyg_model", "torch_geometric.data", "gsplit[pyg]"),
        ("several_types", "torch_geometric.data", "gsplit[pyg]"),
        ("ray_train", "ray.train", "ray[train]"),
    ],
)
def test_a_library_that_is_missing_is_one_line(name, library, package, here, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    match = rf"this example needs .*: pip install '{re.escape(package)}'.*"
    with pytest.raises(SystemExit, match=match) as end:
        here(name, tmp_path / "folder")
    assert "\n" not in end.value.code
    assert not (tmp_path / "folder").exists()


def test_a_loop_of_ones_own_trains(alone, tmp_path):
    printed = apart("own_loop", tmp_path / "out", folder=tmp_path)
    shares = re.findall(
        r"epoch (\d): trainer 0 of 2 has (\d+) of the 100 targets .* entropy (.*), size (.*)", printed
    )
    assert [int(epoch) for epoch, *_ in shares] == [1, 2, 3, 4, 5]
    assert all(0 < int(own) < 100 for _, own, *_ in shares)
    assert accuracies(printed)[-1] > 0.6  # of 4 classes


def test_strategies_are_compared(here, tmp_path):
    printed = here("compare_strategies", tmp_path)
    table = re.findall(r"^(split|data|full) +([\d,]+) +([\d,]+) +([\d,]+) +(0\.\d+) +\d", printed, re.MULTILINE)
    (split, data, full) = ([float(cell.replace(",", "")) for cell in row[1:]] for row in table)
    assert 0 < split[0] < data[0]  # bytes loaded
    assert split[1] > data[1] == 0  # bytes exchanged
    assert split[2] < data[2]  # edges
    assert full[0] < split[0]
    assert min(split[3], data[3]) > 0.6
    assert "times on a CPU say little" in printed
    page = (tmp_path / "report.html").read_text()
    assert all(f">{name}<" in page for name in ("split", "data", "full"))


@pytest.mark.parametrize("name", sorted(NOTEBOOKS))
def test_a_notebook_has_no_outputs(name):
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", 4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells
    assert not [cell for cell in cells if cell.outputs or cell.execution_count is not None]


@pytest.mark.slow
def test_first_steps_in_a_notebook(alone, tmp_path):
    """A kernel runs the notebook: trainers are spawned by it, and what they say is in it."""
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLES / "first_steps.ipynb", 4)
    # Where a test calls it, a kernel would leave out what is printed by processes that cells start.
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute(env=env)
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert "1,000 vertices" in printed
    assert re.search(r"8\d% of the edges stay inside a part", printed)
    assert re.findall(r"^Epoch (\d\d) ", printed, re.MULTILINE) == [f"{epoch:02d}" for epoch in range(1, 7)]
    assert accuracies(printed)[-1] > 0.6  # of 4 classes
    assert len(re.findall(r"vertex \d+: class \d predicted, \d is right", printed)) == 10
    (shown,) = [output.data for output in outputs if output.output_type == "execute_result"]
    assert shown["text/html"].startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert "a page about runs" in shown["text/plain"]


@pytest.fixture
def cells_of(in_pool, tmp_path, monkeypatch):
    """cells_of(name): run a notebook's cells in this process, by the pool's trainers, not in a kernel; its names."""
    hide(monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def run(name):
        names: dict[str, Any] = {"__name__": "notebook"}
        with in_pool():
            for cell in nbformat.read(EXAMPLES / f"{name}.ipynb", 4).cells:
                if cell.cell_type == "code":
                    exec(compile(cell.source, name, "exec"), names)
        return names

    return run


def test_several_types_in_a_notebook(cells_of, capsys):
    names = cells_of("several_types")
    printed = capsys.readouterr().out
    assert "1,473 vertices of type paper" in printed
    assert "field_of_study rev_has_topic paper" in printed
    computed, loaded = re.search(
        r"^paper: ([\d,]+) vectors computed, ([\d,]+) rows loaded$", printed, re.MULTILINE
    ).groups()
    of_papers = names["summary"]["traffic_by_type"]["paper"]
    assert int(computed.replace(",", "")) == of_papers["computed_vertices"] > 0
    assert int(loaded.replace(",", "")) == of_papers["host_rows"] > 0
    assert "classes of 1,473 papers; vectors of 2,269 authors, 16 wide" in printed


def test_a_run_is_looked_at_in_a_notebook(cells_of, capsys):
    """Pictures are drawn and thrown away."""
    with mpl.rc_context({"backend": "agg"}):
        names = cells_of("look_at_a_run")
        assert len(names["plt"].get_fignums()) == 2
        names["plt"].close("all")
    printed = capsys.readouterr().out
    assert "6 epochs, 60 lines of mini-batches" in printed
    counted = re.findall(r"epoch \d: ([\d,]+) KiB loaded, ([\d,]+) KiB exchanged, ([\d,]+) edges", printed)
    assert sum(int(edges.replace(",", "")) for *_, edges in counted) == names["summary"]["traffic"]["computed_edges"]
    assert 1 <= float(re.search(r"the larger share is (.*) of the mean", printed)[1]) < 1.5
