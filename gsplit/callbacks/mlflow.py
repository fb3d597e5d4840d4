"""Records of a run for MLflow (``pip install mlflow-skinny``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsplit.callbacks.callback import Callback, scalars


class MLflow(Callback):
    """Logs to MLflow: into a file in the run's folder, or to the server that is configured.

    Args:
        uri: of the tracking server; by default the file ``mlflow.db`` in the run's folder.
        experiment: that the run belongs to.

    Examples:
        >>> callback = gsplit.callbacks.MLflow(experiment="papers")  # gsplit.train(..., callbacks=[callback])
        >>> callback.experiment
        'papers'
    """

    def __init__(self, uri: str | None = None, experiment: str = "gsplit") -> None:
        self.uri, self.experiment = uri, experiment

    def on_train_begin(self, run: Path, config: dict[str, Any]) -> None:
        """Begin a run of MLflow, with the configuration as its parameters."""
        from mlflow import MlflowClient

        self.client = MlflowClient(self.uri or f"sqlite:///{run.resolve() / 'mlflow.db'}")
        found = self.client.get_experiment_by_name(self.experiment)
        experiment = found.experiment_id if found else self.client.create_experiment(self.experiment)
        self.id = self.client.create_run(experiment, run_name=run.name).info.run_id
        for name, value in config.items():
            self.client.log_param(self.id, name, value)

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        """Log the epoch's numbers."""
        for name, value in scalars(record).items():
            self.client.log_metric(self.id, name, value, step=record["epoch"])

    def on_validation_end(self, record: dict[str, Any]) -> None:
        """Log the scores."""
        for name, value in scalars(record).items():
            self.client.log_metric(self.id, f"within/{name}", value, step=record["step"])

    def on_train_end(self, summary: dict[str, Any]) -> None:
        """Log the scores of the test vertices, and end the run."""
        for name, value in scalars(summary).items():
            if name.startswith("test_"):
                self.client.log_metric(self.id, name, value)
        self.client.set_terminated(self.id)
