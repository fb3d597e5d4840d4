"""``--check-model``: whether a model computes with two trainers what it computes with one."""

from gsplit.train.check.gradients import check_model

__all__ = ["check_model"]
