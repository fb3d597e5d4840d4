"""Mini-batches of links: which pairs an epoch brings, what they are compared with, and who scores them."""

from gsplit.sampling.links.negatives import Negatives
from gsplit.sampling.links.plan import LinkPlan, Pairs
from gsplit.sampling.links.rule import Exclude, Links
from gsplit.sampling.links.training_pairs import TrainingPairs

__all__ = ["Exclude", "LinkPlan", "Links", "Negatives", "Pairs", "TrainingPairs"]
