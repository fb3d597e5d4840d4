"""What make installs: PyTorch as it was tested, or the one that is there already."""

from __future__ import annotations

import os
import platform
import re
from importlib.util import find_spec

from tools.requirements import PINS, PROJECT, pins, requirements
from tools.toml import tomllib
from tools.versions import EXTRAS, commands_of, extras_of_readme


def test_a_pytorch_that_is_there_stays_and_what_belongs_to_another_is_not_pinned():
    tested = [line for line in PINS.read_text().splitlines() if not line.startswith("#")]
    (torch,) = [line for line in tested if line.startswith("torch==")]
    assert sorted(pins(f"{torch.removeprefix('torch==')}+cpu")) == sorted([*tested[1:], f"{torch}+cpu"])
    others = [line for line in tested if not line.startswith(("torch==", "triton=="))]
    assert pins("2.9.1+cu126") == ["torch==2.9.1+cu126", *others]


def test_everything_that_users_install_has_a_lower_bound():
    bounded = re.compile(r"[\w-]+(>=|==)[\d.]+( *;.*)?$")
    assert [line for line in requirements(*EXTRAS) if not bounded.match(line)] == []


def test_a_build_writes_nothing_into_the_source_tree():
    # The tree may be read-only: where nothing is said, scikit-build-core takes a temporary folder.
    assert "build-dir" not in tomllib.loads(PROJECT.read_text())["tool"]["scikit-build"]


def test_readme_s_commands_are_those_of_a_user():
    first, all_of_them = (
        [command.split()[1] for command in commands_of(page)] for page in ("README.md", "docs/guides/commands.md")
    )
    assert first == ["import", "partition", "train", "predict"]
    assert all_of_them == ["import", "partition", "train", "train", "report", "predict"]
    assert set(extras_of_readme().split(",")) <= set(EXTRAS)


def test_triton_is_there_where_it_has_a_wheel():
    """Or tests of its kernels would be left out, and nobody would notice; DGL is left out by `make lowest` alone."""
    has_wheel = platform.system() == "Linux" and platform.machine() == "x86_64"
    assert find_spec("triton") or not has_wheel or os.environ.get("GSPLIT_TEST_WITHOUT_DGL")
