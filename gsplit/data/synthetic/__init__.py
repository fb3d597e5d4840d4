"""Synthetic graphs: plain ones of several sizes, ones calibrated to the graphs of the paper, and of several types."""

from gsplit.data.synthetic.calibrated import Calibrated
from gsplit.data.synthetic.plain import Preset, generate
from gsplit.data.synthetic.presets import PRESETS, TYPED, Choice, choose

__all__ = ["PRESETS", "TYPED", "Calibrated", "Choice", "Preset", "choose", "generate"]
