"""A sampler that gets no memory in the middle of a mini-batch, wherever that is, can be used again."""

from __future__ import annotations

import json

import pytest
from support.commands import python

CHILD = """
import json, resource, sys
import numpy as np
from gsplit.sampling import MiniBatchSampler

STEP = 1 << 20
N, DEGREE = 300_000, 8
parts, memory = json.loads(sys.argv[1])
random = np.random.default_rng(0)
indptr, indices = np.arange(0, N * DEGREE + 1, DEGREE), random.integers(0, N, N * DEGREE, np.int32)
first, second = random.permutation(N)[:30_000], random.permutation(N)[:3_000]

def sampler(memory):
    return MiniBatchSampler(
        indptr, indices, np.linspace(0, N, parts + 1).astype(int), fan_outs=[-1], seed=0, edge_ids=True,
        memory=memory,
    )

def sampled(sampler, targets):
    assert sampler.sample(targets, epoch=0, batch=0)
    return [sampler.segment_bytes(rank) for rank in range(parts)], [
        hash(sampler.segment(rank).data.tobytes()) for rank in range(parts)
    ]

def taken():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

wanted = sampled(sampler(None), second)
failed = 0
while True:
    tried = sampler(memory)
    resource.setrlimit(resource.RLIMIT_AS, (taken() + failed * STEP, resource.RLIM_INFINITY))
    try:
        tried.sample(first, epoch=0, batch=0)
        done = True
    except MemoryError:
        done = False
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if done:
        break
    failed += 1
    try:
        tried.segment_bytes(0)
        raise AssertionError("half a mini-batch was given out")
    except ValueError:
        pass
    assert sampled(tried, second) == wanted, failed
print(failed)
"""


@pytest.mark.parametrize(("parts", "memory"), [(1, 0), (3, 0), (3, None)])
def test_a_sampler_that_got_no_memory_samples_as_a_new_one(parts, memory):
    # The address space is bounded a little further out each time, so that it is something else that finds no room.
    # One thread: glibc ends the process where another one throws its first exception and has no memory for that.
    child = python("-c", CHILD, json.dumps([parts, memory]))
    assert child.stderr == ""
    assert int(child.stdout) > 5
