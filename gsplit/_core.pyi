# The C++ core as Python sees it (csrc/bindings.cpp).
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

class Repeats(Enum):
    first = ...
    sum = ...
    mean = ...
    max = ...
    last = ...
    keep = ...

class _Sampler:
    def __init__(
        self,
        relations: list[tuple[str, int, int, NDArray[np.int64], NDArray[Any]]],
        types: list[tuple[str, NDArray[np.int64], list[int]]],
        memory: int,
        threads: int,
        partial_sums: bool,
    ) -> None: ...
    def sample(
        self,
        targets: NDArray[np.int64],
        type: int,
        fan_outs: NDArray[np.int64],
        seed: int,
        epoch: int,
        batch: int,
        micro: int,
        num_targets: int,
        edge_ids: bool,
        max_edges: int,
    ) -> bool: ...
    def exclude(self, destinations: NDArray[np.int64], sources: NDArray[np.int64]) -> None: ...
    @property
    def excluded_edges(self) -> int: ...
    def use_pool(self, edge_weight: NDArray[np.float32] | None, importance: str) -> None: ...
    def sample_pools(
        self,
        targets: NDArray[np.int64],
        sizes: NDArray[np.int64],
        seed: int,
        epoch: int,
        batch: int,
        micro: int,
        num_targets: int,
        exponential: bool,
        edge_ids: bool,
    ) -> None: ...
    def sample_inside(
        self,
        targets: NDArray[np.int64],
        sets: list[NDArray[np.int64]],
        scales: list[NDArray[np.float32]] | None,
        scale: float | None,
        epoch: int,
        batch: int,
        micro: int,
        num_targets: int,
        edge_ids: bool,
    ) -> None: ...
    def sample_subgraph(
        self,
        vertices: NDArray[np.int64],
        targets: int,
        layers: int,
        scales: NDArray[np.float32] | None,
        scale: float | None,
        epoch: int,
        batch: int,
        micro: int,
        num_targets: int,
        edge_ids: bool,
    ) -> None: ...
    def number_by_id(self) -> None: ...
    def put_pairs(
        self,
        targets: NDArray[np.int64],
        sources: NDArray[np.int32],
        destinations: NDArray[np.int32],
        own: NDArray[np.int32],
        shared: NDArray[np.int32],
        masked: NDArray[np.uint8],
        rows: NDArray[np.int64],
        own_log_q: NDArray[np.float32],
        shared_log_q: NDArray[np.float32],
        chunk: int,
        own_at_source: int,
        shared_at_source: int,
        groups_of_all: int,
        negatives_of_all: int,
        turned: bool,
        apart: bool,
    ) -> None: ...
    def segment_bytes(self, rank: int) -> int: ...
    def write_segment(self, rank: int, out: NDArray[np.uint8]) -> None: ...

class Sampler32(_Sampler): ...
class Sampler64(_Sampler): ...

class EndingSignals:
    def __init__(self, numbers: list[int]) -> None: ...

class IdMap:
    def __init__(self, path: str) -> None: ...
    @property
    def num_vertices(self) -> int: ...
    def add(self, offsets: NDArray[np.int64], data: NDArray[np.uint8], vertices: NDArray[np.int64]) -> None: ...
    def find(self, offsets: NDArray[np.int64], data: NDArray[np.uint8], vertices: NDArray[np.int64]) -> None: ...
    def copy(self, begin: int, offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> None: ...
    def bytes_between(self, begin: int, end: int) -> int: ...

def shuffle_into_runs(
    global_ids: NDArray[np.int64], key: int, bounds: NDArray[np.int64], order: NDArray[np.int64]
) -> None: ...
def csc_from_edges(
    sources: NDArray[Any], destinations: NDArray[Any], n: int, symmetric: bool
) -> tuple[NDArray[np.int64], NDArray[Any]]: ...
def symmetrize(
    indptr: NDArray[np.int64], indices: NDArray[Any], weights: NDArray[np.uint32] | None = None
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any] | None]: ...
def symmetrize_wide(
    indptr: NDArray[np.int64], indices: NDArray[Any], weights: NDArray[np.uint32] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]: ...
def count_in_degrees(pairs: NDArray[Any], reverse: bool, degrees: NDArray[np.int64]) -> None: ...
def rows_from_edges(
    pairs: NDArray[Any],
    weights: NDArray[np.float64] | None,
    own: int,
    old: int,
    first: int,
    degrees: NDArray[np.int64],
    seen: NDArray[Any],
    repeats: Repeats,
    add_loops: bool,
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64], NDArray[np.int64], int, int]: ...
def least_cover(
    indptr: NDArray[np.int64],
    destinations: NDArray[np.int32],
    takes_source: NDArray[np.uint8],
    takes_destination: NDArray[np.uint8],
) -> None: ...
def walk_edges(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    begin: int,
    end: int,
    component: NDArray[Any],
    last: NDArray[Any],
) -> tuple[int, int, int]: ...
def are_edges(
    indptr: NDArray[np.int64], indices: NDArray[Any], sources: NDArray[np.int64], destinations: NDArray[np.int64]
) -> NDArray[np.bool_]: ...
def edges_from(
    indptr: NDArray[np.int64], indices: NDArray[Any], candidates: NDArray[np.int64], sources: NDArray[np.int64]
) -> NDArray[np.bool_]: ...
def permuted_rows(key: int, num_rows: int, begin: int, end: int) -> NDArray[np.int64]: ...
def gather_rows(
    rows: NDArray[np.uint8],
    ids: NDArray[np.int64],
    out: NDArray[np.uint8],
    threads: int,
    positions: NDArray[np.int64] | None = None,
) -> None: ...
def find_rows(
    ids: NDArray[np.int64],
    ranges: NDArray[np.int64],
    rows: NDArray[np.int64],
    positions: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None: ...
def find_rows_by_table(
    ids: NDArray[np.int64], table: NDArray[np.int32], rows: NDArray[np.int64], positions: NDArray[np.int64]
) -> int: ...
def stream_range(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    edge_weight: NDArray[np.uint32] | None,
    vertex_weight: NDArray[np.int64] | None,
    target_weight: NDArray[np.int32] | None,
    movable: NDArray[np.uint8] | None,
    group: NDArray[np.int32],
    load: NDArray[np.int64],
    target_load: NDArray[np.int64],
    gain: NDArray[np.int64],
    limit: int,
    target_limit: int,
    everywhere: bool,
    strain: int,
    seed: int,
    begin: int,
    end: int,
) -> int: ...
def post(words: NDArray[np.uint64], slot: int, own: int, note: int, peers: NDArray[np.int64]) -> bool: ...
def post_number(numbers: NDArray[np.uint32], at: int, number: int) -> None: ...
def wait_for_number(numbers: NDArray[np.uint32], at: int, number: int, seconds: float) -> bool: ...
def sum_rows(
    indptr: Tensor,
    indices: Tensor,
    own: Tensor,
    received: Tensor | None,
    out: Tensor,
    start: Tensor | None = None,
    factor: Tensor | None = None,
    weight: Tensor | None = None,
    order: Tensor | None = None,
    degrees: Tensor | None = None,
    scale: Tensor | None = None,
    start_scale: Tensor | None = None,
    threads: int = 1,
) -> None: ...
def dot_rows(
    indptr: Tensor, indices: Tensor, own: Tensor, received: Tensor | None, left: Tensor, out: Tensor, threads: int = 1
) -> None: ...
def add_rows(out: Tensor, rows: Tensor, values: Tensor) -> None: ...
def transpose_edges(
    indptr: Tensor,
    indices: Tensor,
    out_indptr: Tensor,
    out_rows: Tensor,
    out_order: Tensor | None = None,
    threads: int = 1,
) -> None: ...
def split_edges(
    indptr: Tensor,
    indices: Tensor,
    num_own: int,
    own: tuple[Tensor, Tensor, Tensor | None],
    received: tuple[Tensor, Tensor, Tensor | None],
) -> int: ...
def attention_scores(
    indptr: Tensor,
    indices: Tensor,
    source: Tensor,
    destination: Tensor,
    slope: float,
    out: Tensor,
    own_out: Tensor | None,
    highest_out: Tensor | None = None,
    threads: int = 1,
) -> None: ...
def attention_shares(
    indptr: Tensor, indices: Tensor, powers: Tensor, own_powers: Tensor | None, threads: int = 1
) -> None: ...
def attention_backward(
    indptr: Tensor,
    indices: Tensor,
    source: Tensor,
    destination: Tensor,
    slope: float,
    shares: Tensor,
    own_shares: Tensor | None,
    gradients: Tensor,
    own_gradients: Tensor | None,
    destination_gradients: Tensor,
    sums: Tensor | None = None,
    threads: int = 1,
) -> None: ...
def has_tiles() -> bool: ...
def has_wide_products() -> bool: ...
def multiply(
    terms: Sequence[tuple[Tensor, Tensor, bool]],
    bias: Tensor | None,
    out: Tensor,
    finish: tuple[int, float, int] | None = None,
    *,
    by: str,
    threads: int = 1,
) -> None: ...
def multiply_backward(
    gradients: Tensor,
    terms: Sequence[tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]],
    column_sums: Tensor | None = None,
    finish: tuple[int, float, int] | None = None,
    out: Tensor | None = None,
    *,
    by: str,
    threads: int = 1,
) -> None: ...
def instruction_sets() -> list[str]: ...
def use_instruction_set(name: str) -> None: ...
def activate(
    x: Tensor, activation: int, drop: float, seed: int, out: Tensor, bias: Tensor | None = None, threads: int = 1
) -> None: ...
def activate_backward(
    out: Tensor,
    activation: int,
    drop: float,
    seed: int,
    gradients: Tensor,
    x_gradients: Tensor,
    bias_gradients: Tensor | None = None,
    threads: int = 1,
) -> None: ...
def pack_signs(x: Tensor, signs: Tensor, threads: int = 1) -> None: ...
def relu_backward(
    signs: Tensor,
    drop: float,
    gradients: Tensor,
    x_gradients: Tensor,
    bias_gradients: Tensor | None = None,
    threads: int = 1,
) -> None: ...
def normalise(
    x: Tensor,
    norm: int,
    eps: float,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    finish: tuple[int, float, int],
    out: Tensor,
    signs: Tensor | None = None,
    skip: Tensor | None = None,
    threads: int = 1,
) -> None: ...
def normalise_backward(
    x: Tensor,
    norm: int,
    eps: float,
    weight: Tensor | None,
    finish: tuple[int, float, int],
    signs: Tensor | None,
    gradients: Tensor,
    x_gradients: Tensor,
    weight_gradients: Tensor | None,
    bias_gradients: Tensor | None,
    threads: int = 1,
) -> None: ...
def batch_sums(x: Tensor, mean: Tensor | None, out: Tensor, threads: int = 1) -> None: ...
def batch_backward_sums(
    x: Tensor,
    mean: Tensor,
    finish: tuple[int, float, int],
    signs: Tensor | None,
    gradients: Tensor,
    products: Tensor,
    sums: Tensor,
    threads: int = 1,
) -> None: ...
def batch_backward(
    x: Tensor,
    weight: Tensor,
    mean: Tensor,
    finish: tuple[int, float, int],
    signs: Tensor | None,
    gradients: Tensor,
    shift: Tensor,
    slope: Tensor,
    x_gradients: Tensor,
    threads: int = 1,
) -> None: ...
def narrow_fits(outputs: int, width: int) -> bool: ...
def project_rows(
    x: Tensor | NDArray[Any],
    ids: NDArray[np.int64] | None,
    products: Sequence[tuple[Tensor, Tensor | None, Tensor]],
    *,
    by: str,
    threads: int = 1,
) -> None: ...
def rows_gradient(
    x: Tensor | NDArray[Any],
    ids: NDArray[np.int64] | None,
    gradients: Sequence[tuple[Tensor, Tensor]],
    *,
    by: str,
    threads: int = 1,
) -> None: ...
def score_pairs(
    sources: NDArray[Any], table: NDArray[Any], rows: NDArray[np.int64], out: NDArray[Any], threads: int
) -> None: ...
def count_shared(
    sources: NDArray[Any],
    table: NDArray[Any],
    bounds: NDArray[Any],
    candidates: NDArray[np.int64] | None,
    above: NDArray[np.int64],
    equal: NDArray[np.int64],
    threads: int,
) -> None: ...
def count_listed(
    sources: NDArray[Any],
    table: NDArray[Any],
    bounds: NDArray[Any],
    indptr: NDArray[np.int64],
    rows: NDArray[np.int64],
    sign: int,
    above: NDArray[np.int64],
    equal: NDArray[np.int64],
    threads: int,
) -> None: ...
def best_rows(
    sources: NDArray[Any],
    table: NDArray[Any],
    candidates: NDArray[np.int64] | None,
    order: NDArray[np.int64],
    indptr: NDArray[np.int64],
    left_out: NDArray[np.int64],
    best: NDArray[np.int64],
    scores: NDArray[Any],
    threads: int,
) -> None: ...
def draw_candidates(
    keys: NDArray[np.uint64],
    numbers: NDArray[np.int64],
    vertices: NDArray[np.int64],
    indptr: NDArray[np.int64],
    left_out: NDArray[np.int64],
    out: NDArray[np.int64],
    threads: int,
) -> None: ...
