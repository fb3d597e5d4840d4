"""Imports point inward (docs/architecture.md), and what samples or partitions does without torch."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gsplit

PACKAGE = Path(gsplit.__file__).parent
ALLOWED = {
    "pages": set(),
    "data": {"config", "processes", "pages"},
    "processes": {"device", "hosts"},
    "hosts": set(),
    "runs": set(),
    "device": set(),
    "config": {"runs"},
    "sampling": {"data"},
    "supply": {"sampling", "data", "processes", "hosts"},
    "partition": {"config", "sampling", "data", "processes"},
    "parallel": {"device", "hosts"},
    "kernels": {"device"},
    "optim": {"config", "device", "parallel"},
    "features": {"device", "kernels", "sampling", "data"},
    "nn": {"kernels", "parallel", "sampling", "data"},
    "models": {"nn", "config", "data", "device", "processes", "runs", "sampling"},
    "full": {"kernels", "nn", "parallel", "data", "config"},
    "engine": {
        *("full", "kernels", "supply", "sampling", "features", "nn", "optim", "parallel", "models", "runs", "config"),
        *("data", "device"),
    },
    "launch": {"device", "engine", "supply", "parallel", "processes", "models", "runs", "config", "data", "hosts"},
    "train": {
        "callbacks",
        *("partition", "launch", "engine", "supply", "sampling", "features", "nn", "optim", "parallel", "processes"),
        *("full", "models", "runs", "config", "data", "device", "hosts"),
    },
    "callbacks": set(),
    "doctor": {*("launch", "engine", "supply", "parallel", "full", "features", "config", "data", "device", "hosts")},
    "report": {"partition", "runs", "config", "data", "pages"},
    "predict": {
        *("engine", "sampling", "features", "nn", "parallel", "processes"),
        *("models", "runs", "config", "data", "device"),
    },
}
"""What each subpackage may import, beside itself and the modules at the top."""


def imported(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("room", ALLOWED)
def test_imports_point_inward(room):
    rooms = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").is_file()}
    assert rooms == set(ALLOWED)
    files = list((PACKAGE / room).rglob("*.py"))
    assert files
    for path in files:
        used = {name.split(".")[1] for name in imported(path) if name.startswith("gsplit.")}
        assert used & rooms <= ALLOWED[room] | {room}, path


def test_no_package_leads_back_to_itself():
    """The packages have an order: each may import those before it alone."""
    order = list(graphlib.TopologicalSorter(ALLOWED).static_order())
    assert sorted(order) == sorted(ALLOWED)


@pytest.mark.parametrize("room", ["data", "partition", "report", "sampling", "supply", "processes", "hosts"])
def test_no_torch_where_it_is_not_needed(room):
    code = f"import sys, gsplit.{room}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


SETTING_UP = {
    *("ProcessGroup", "PrefixStore", "Store", "TCPStore", "destroy_process_group", "get_rank", "get_world_size"),
    *("group", "get_default_backend_for_device", "init_process_group", "is_initialized", "new_group", "DistError"),
    *("HashStore", "ProcessGroupGloo"),
}
"""Names of torch.distributed that make and name groups, beside the collectives."""


def names_of_distributed(path: Path) -> set[str]:
    """What a file uses of torch.distributed; ``*`` for what cannot be told."""
    tree = ast.parse(path.read_text())
    used, known = set(), {"torch.distributed"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.startswith("torch.distributed"):
                    known.add(name.asname or name.name)
                    used |= set() if name.name == "torch.distributed" else {"*"}
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            known |= {name.asname or name.name for name in node.names if name.name == "distributed"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch.distributed"):
            used |= {name.name for name in node.names}
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return used | {node.attr for node in attributes if ast.unparse(node.value) in known}


def test_every_collective_goes_through_one_module():
    for path in PACKAGE.rglob("*.py"):
        used = names_of_distributed(path)
        if path.parent != PACKAGE / "parallel":
            assert not used, path
        elif path.name != "collectives.py":
            assert used <= SETTING_UP, path
    assert "all_to_all_single" in names_of_distributed(PACKAGE / "parallel" / "collectives.py")


def test_a_grid_needs_nothing_but_numbers():
    own = {name.split(".")[0] for name in imported(PACKAGE / "parallel" / "grid.py")}
    assert own <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("wiring", "homes"),
    {
        # But for the check of a model, which compares gradients and takes no step.
        r"\.backward\(\)": {"engine/step.py", "train/check/gradients.py"},
        r"\bmini_batch_loss\(": {"engine/objective.py", "engine/tasks/vertices.py"},
        r"\bSamplerSpec\(": {"engine/sampled/engine.py"},
        r"\bSplitLoader\(": {"engine/components.py"},
        r"\bFeatureLoader\(": {"engine/inputs.py", "engine/typed/loader.py", "engine/rows/loading.py"},
        r"\bEdgeLoader\(": {"engine/inputs.py", "train/trainer.py"},
        r"\btarget_weights=": {"engine/inputs.py", "engine/gridded/subgraph_batches.py"},
        r"__dict__": set(),
    }.items(),
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_each_wiring_stands_once(wiring, homes):
    """The body of a step, the samplers of a run, what loads a split: made in one place, and handed on."""
    without_classes = re.compile(r"^class .*$", re.MULTILINE)
    found = {
        str(path.relative_to(PACKAGE))
        for part in ("engine", "train", "predict", "supply", "nn", "launch")
        for path in (PACKAGE / part).rglob("*.py")
        if re.search(wiring, without_classes.sub("", path.read_text()))
    }
    assert found == homes


def test_what_is_decided_is_not_doubted():
    """Of a resolved configuration next to nothing may be None, so code has few occasions to say that it is not."""
    doubts = [
        line
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"assert (\w+\.)?(config|asked)\.\w+ is not None", line)
    ]
    assert len(doubts) < 10
