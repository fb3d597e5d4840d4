"""Fixtures of the whole suite."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import hashlib
import logging
import os
import signal
import tempfile
from collections import defaultdict
from pathlib import Path

import hypothesis
import pytest
import torch
from support import workers
from support.disk import wait_for_no_disk
from support.forked import Nursery, spawn_by_forking
from support.garbage import collect_seldom
from support.graphs import lay_out, random_graph
from support.pool import SIZE, Pool
from support.predictions import InPool as PredictsInPool
from support.prices import keep_prices, remove_prices
from support.runs import InPool as TrainsInPool

from experiments.shared import real_graphs
from gsplit import cli
from gsplit.device import accelerator


def pytest_addoption(parser):
    parser.addoption("--workers", type=int, default=0, help="files side by side, by so many processes")


def pytest_configure():
    # A shell's background jobs ignore SIGINT, and so would all that tests start: here it means Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    collect_seldom()
    wait_for_no_disk()
    keep_prices()
    hypothesis.settings.register_profile("without clocks", deadline=None)  # a busy machine is no fault of the code
    hypothesis.settings.load_profile("without clocks")
    if accelerator.find("auto")[0] in (accelerator.HOST, "sim"):  # a driver of GPUs is of no use once it is forked
        spawn_by_forking()
    # As each trainer does. Where tests take all cores, threads that wait for each other take most of the time.
    torch.set_num_threads(1)


def pytest_collection_finish(session):
    if not session.config.option.workers:
        _begin()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    option = session.config.option
    if not option.workers or option.collectonly or session.testsfailed:
        return None  # pytest goes on
    workers.run(session, option.workers, begin=_begin_apart)
    return True


def _begin_apart():
    keep_prices()  # the others' folder goes with them
    _begin()


def _begin():
    collect_seldom()  # what tests have imported is there now
    if accelerator.find("auto")[0] == accelerator.HOST:
        Pool.twin = Nursery.twin()


def pytest_unconfigure():
    remove_prices()
    atexit.register(gc.unfreeze)  # or what the core has made counts as leaked; before, pytest collects five times


LONGEST = (
    "tests/faults/",
    "tests/cli/",
    "tests/unit/kernels/test_interpreter.py",
    "tests/processes/",
    "tests/unit/experiments/",
)
"""Where the files are that take longest, the longest first: one that begins last leaves the other cores idle."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    _leave_cases(items)
    items.sort(
        key=lambda item: next((i for i, path in enumerate(LONGEST) if item.nodeid.startswith(path)), len(LONGEST))
    )
    kind = accelerator.find("auto")[0]
    for item in items:
        if "accelerator_pool" in getattr(item, "fixturenames", ()) and kind != "sim":
            item.add_marker(pytest.mark.xdist_group("pool"))  # two pools on one GPU may wait for each other for ever
        if kind == accelerator.HOST and item.get_closest_marker("accelerator"):
            item.add_marker(pytest.mark.skip(reason="needs an accelerator; make test runs it on the simulated one"))
        elif kind in (accelerator.HOST, "sim") and (mark := item.get_closest_marker("gpu")):
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU (tools/gpu_check.sh): {mark.args[0]}"))


def _leave_cases(items):
    """Mark the cases that make test leaves out, of tests marked ``cases(n)``.

    What stays are cases that a mutation names, and then those that have most of what no other has yet: every value of
    every parameter comes, as far as n goes. Nothing depends on the order of a run.
    """
    named = (Path(__file__).parents[1] / "tools" / "mutants.toml").read_text()
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("cases") and not any(mark.args[0] for mark in item.iter_markers("skipif")):
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_test in cases.values():
        of_test.sort(key=lambda item: hashlib.sha256(item.nodeid.encode()).digest())
        left = {item: {(name, repr(value)) for name, value in item.callspec.params.items()} for item in of_test}
        kept = [item for item in of_test if f'"{item.nodeid}"' in named]
        seen = set().union(*(left.pop(item) for item in kept))
        for _ in range(min(of_test[0].get_closest_marker("cases").args[0] - len(kept), len(left))):
            seen |= left.pop(max(left, key=lambda item: len(left[item] - seen)))
        for item in left:
            item.add_marker(pytest.mark.left_out)


@pytest.fixture(autouse=True)
def _settings_of_the_process():
    """A command that a test calls in this process sets threads and what loggers say, also for the tests after it."""
    levels = {name: logging.getLogger(name).level for name in cli.OURS}
    yield
    torch.set_num_threads(1)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture(scope="session")
def living_pool():
    """living_pool(): trainers to send functions to; a pool that a failing test broke is replaced."""
    with _living("cpu") as living:
        yield living


@contextlib.contextmanager
def _living(kind, size=SIZE):
    pools: list[Pool] = []

    def living() -> Pool:
        if not pools or pools[-1].closed:
            pools.append(Pool(kind, size))
        return pools[-1]

    yield living
    for pool in pools:
        if not pool.closed:
            pool.close()


@pytest.fixture(scope="session")
def kind():
    """The type of the accelerators that a test marked ``accelerator`` runs on: simulated ones, or real ones."""
    return accelerator.find("auto")[0]


@pytest.fixture
def device(kind):
    """The first of them."""
    return torch.device(kind, 0)


@pytest.fixture(scope="session")
def living_accelerator_pool(kind):
    """The same as living_pool, with trainers on accelerators; where there are fewer, they share them."""
    with pytest.MonkeyPatch.context() as patch, _living(kind) as living:
        patch.setenv("GSPLIT_SHARE_GPU", "1")
        yield living


@pytest.fixture
def accelerator_pool(living_accelerator_pool):
    """The pool that a test begins with."""
    return living_accelerator_pool()


@pytest.fixture
def pool(living_pool):
    """The pool that a test begins with."""
    return living_pool()


@pytest.fixture(scope="module")
def living_larger_pools():
    """living_larger_pools(size): as living_pool, of so many trainers, which are always together."""
    with contextlib.ExitStack() as stack:
        found = functools.cache(lambda size: stack.enter_context(_living("cpu", size)))
        yield lambda size: found(size)()


@pytest.fixture
def pool_of_five(living_larger_pools):
    return living_larger_pools(5)


@pytest.fixture
def pool_of_six(living_larger_pools):
    """As three hosts of two are."""
    return living_larger_pools(6)


@pytest.fixture(scope="module")
def spent_pool(living_pool):
    """For files whose tests leave groups behind (support.apart): those after them have another pool."""
    yield
    if not (pool := living_pool()).closed:
        pool.close()


@pytest.fixture(scope="session")
def in_pool(living_pool):
    """``with in_pool():`` commands train and predict with the pool's trainers, which sample for themselves."""

    @contextlib.contextmanager
    def inside():
        with pytest.MonkeyPatch.context() as patch:
            pool = living_pool()
            patch.setattr("gsplit.launch.start.start", TrainsInPool(pool))
            patch.setattr("gsplit.predict.api.start", PredictsInPool(pool))
            yield

    return inside


@pytest.fixture(scope="session")
def layouts(tmp_path_factory):
    """layouts(parts, method) of one random graph of 300 vertices."""
    folder = tmp_path_factory.mktemp("layouts")
    graph = random_graph(300, 10, seed=3)
    return lambda parts, method="metis": lay_out(graph, folder, parts=parts, method=method)


@pytest.fixture(scope="session")
def weighted_layouts(tmp_path_factory):
    """The same with edge weights."""
    folder = tmp_path_factory.mktemp("weighted")
    graph = random_graph(300, 10, seed=3, weighted=True)
    return lambda parts, method="metis": lay_out(graph, folder, parts=parts, method=method)


@pytest.fixture(scope="session")
def real_data():
    """The folder of the real graphs; tests that need it say so by asking for it."""
    folder = real_graphs.folder()
    if not (folder / "cora.npz").is_file():
        pytest.skip(f"no cora.npz in {folder}; set GSPLIT_DATA to where the real graphs are (CONTRIBUTING.md)")
    return folder


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files, in which nothing is left when a test is over."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert os.listdir(folder) == []
