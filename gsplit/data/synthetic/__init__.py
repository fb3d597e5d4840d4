"""Synthetic graphs: plain ones of several sizes, and ones calibrated to the graphs of the paper."""

from gsplit.data.synthetic.calibrated import Calibrated, generate_calibrated
from gsplit.data.synthetic.plain import Preset, generate
from gsplit.data.synthetic.presets import PRESETS, Choice, choose, generate_preset

__all__ = [
    "PRESETS",
    "Calibrated",
    "Choice",
    "Preset",
    "choose",
    "generate",
    "generate_calibrated",
    "generate_preset",
]
