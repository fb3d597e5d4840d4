"""The engine of the whole graph: one mini-batch an epoch, of all training vertices with all their neighbours."""

from gsplit.engine.whole.whole_graph import WholeGraph, without_the_plan_before

__all__ = ["WholeGraph", "without_the_plan_before"]
