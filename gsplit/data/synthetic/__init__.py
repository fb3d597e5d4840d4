"""Synthetic graphs: plain ones of several sizes, ones calibrated to the graphs of the paper, and of several types."""

from gsplit.data.synthetic.calibrated import Calibrated, generate_calibrated
from gsplit.data.synthetic.plain import Preset, generate
from gsplit.data.synthetic.presets import PRESETS, TYPED, Choice, choose, generate_preset
from gsplit.data.synthetic.typed import Typed, generate_typed

__all__ = [
    "PRESETS",
    "TYPED",
    "Calibrated",
    "Choice",
    "Preset",
    "Typed",
    "choose",
    "generate",
    "generate_calibrated",
    "generate_preset",
    "generate_typed",
]
