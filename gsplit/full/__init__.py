"""Sums over the whole graph, laid over the trainers: who has which rows, what moves, what is multiplied."""

from gsplit.full.levels import Levels, levels_of
from gsplit.full.plans import COLUMNS, FEATURES, ROWS, GridPlan, plan_of

__all__ = ["COLUMNS", "FEATURES", "ROWS", "GridPlan", "Levels", "levels_of", "plan_of"]
