"""Callbacks: what is reported of a run while it trains; for TensorBoard, Weights & Biases and MLflow, or your own."""

from __future__ import annotations

from gsplit.callbacks.callback import Callback, scalars
from gsplit.callbacks.mlflow import MLflow
from gsplit.callbacks.tensorboard import TensorBoard
from gsplit.callbacks.wandb import WandB

__all__ = ["Callback", "MLflow", "TensorBoard", "WandB", "scalars"]
