"""Mini-batches: which targets an epoch brings, and sampling and splitting them. Imports no torch."""

from gsplit.sampling.micro_batches import MicroBatches, split_offsets
from gsplit.sampling.plan import EpochPlan
from gsplit.sampling.sampler import MiniBatchSampler, sampler_of
from gsplit.sampling.segment import Segment

__all__ = ["EpochPlan", "MicroBatches", "MiniBatchSampler", "Segment", "sampler_of", "split_offsets"]
