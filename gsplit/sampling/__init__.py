"""Mini-batches: which targets an epoch brings, and sampling and splitting them. Imports no torch.

``rule`` says how mini-batches are sampled; ``plan`` has their targets, ``sampler`` draws and splits, ``segment`` is a
split at rest, ``micro_batches`` brings them together. The rules: neighbours in ``rule``, LADIES and FastGCN in
``layerwise``, uniform subgraphs and clusters in ``subgraphs``, uniform sets by layer in ``fresh``, GraphSAINT in
``saint``; ``masses`` is what several of them draw by.
"""

from gsplit.sampling.fresh import Fresh
from gsplit.sampling.layerwise import FastGCN, Ladies
from gsplit.sampling.micro_batches import MicroBatches, SamplerSpec, split_offsets
from gsplit.sampling.plan import EpochPlan
from gsplit.sampling.reach import Reach, reach_of, within
from gsplit.sampling.rule import MicroBatchSampler, Neighbours, Plan, Rule
from gsplit.sampling.saint import Saint
from gsplit.sampling.sampler import (
    MiniBatchSampler,
    RelationEdges,
    TypedSampler,
    TypeInParts,
    sampler_of,
    typed_sampler_of,
)
from gsplit.sampling.segment import Segment
from gsplit.sampling.subgraphs import Clusters, Uniform

__all__ = [
    "Clusters",
    "EpochPlan",
    "FastGCN",
    "Fresh",
    "Ladies",
    "MicroBatchSampler",
    "MicroBatches",
    "MiniBatchSampler",
    "Neighbours",
    "Plan",
    "Reach",
    "RelationEdges",
    "Rule",
    "Saint",
    "SamplerSpec",
    "Segment",
    "TypeInParts",
    "TypedSampler",
    "Uniform",
    "reach_of",
    "sampler_of",
    "split_offsets",
    "typed_sampler_of",
    "within",
]
