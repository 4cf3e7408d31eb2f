"""A history in MLflow, where it is installed: a run for each session, by their own tracking library.

ScaleCurve keeps no store of its own there: bundles are the record, and what is exported twice is one run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from scalecurve_timelines.timeline import ExperimentTimeline, History, PastSession

SESSION_TAG = "scalecurve.session"
_MOST_TEXT = 250
_NAME_CHARACTERS = " _-./"


class MlflowError(Exception):
    """MLflow is not installed, or refuses what is logged."""


def export(history: History, tracking_uri: str) -> tuple[int, int]:
    """Log every session as a run of the experiment's name; (runs logged, runs that were there already).

    Metrics are the metric of each point, as ``throughput/weak/4``; parameters what was recorded of all of its runs.
    Raises MlflowError where it is not installed, cannot be reached, or refuses a name.
    """
    mlflow = _library()
    try:
        return _export(mlflow, history, tracking_uri)
    except mlflow.exceptions.MlflowException as error:
        raise MlflowError(f"{tracking_uri}: {' '.join(str(error).split())}") from error


def _export(mlflow: ModuleType, history: History, tracking_uri: str) -> tuple[int, int]:
    client = mlflow.MlflowClient(tracking_uri=tracking_uri)
    logged = known = 0
    for timeline in history.timelines:
        there = client.get_experiment_by_name(timeline.experiment)
        experiment = there.experiment_id if there else client.create_experiment(timeline.experiment)
        for index, session in enumerate(timeline.sessions):
            key = _key(timeline, session)
            if client.search_runs([experiment], f"tags.`{SESSION_TAG}` = '{key}'", max_results=1):
                known += 1
                continue
            _log(mlflow, client, experiment, timeline, index, key)
            logged += 1
    return logged, known


def _log(mlflow: ModuleType, client: Any, experiment: str, timeline: ExperimentTimeline, index: int, key: str) -> None:
    session = timeline.sessions[index]
    began = session.started_ns // 1_000_000
    tags = {SESSION_TAG: key, "scalecurve.bundle": session.bundle}
    run = client.create_run(experiment, start_time=began, tags=tags, run_name=session.minute)
    entities = mlflow.entities
    metrics = [
        entities.Metric(
            _name(f"{timeline.metric}/{curve.series}/{curve.workers}/{curve.layout}"), value.value, began, 0
        )
        for curve in timeline.curves
        if (value := curve.values[index]) is not None
    ]
    parameters = [entities.Param(_name(name), value) for name, value in _facts(session)]
    client.log_batch(run.info.run_id, metrics=metrics, params=parameters)
    client.set_terminated(run.info.run_id, end_time=began)


def _facts(session: PastSession) -> Iterator[tuple[str, str]]:
    """At most 100 of them, MLflow's limit for a batch; a value of all points of the session."""
    names = sorted({name for reading in session.readings.values() for name in reading.facts})
    for name in names[:100]:
        yield name, session.fact(name)[:_MOST_TEXT]


def _key(timeline: ExperimentTimeline, session: PastSession) -> str:
    """The same for the same runs and metric, in whatever bundle they stand."""
    runs = sorted(run for r in session.readings.values() for repetition in r.repetitions for run in repetition.runs)
    return hashlib.sha256("\n".join([timeline.metric, *runs]).encode()).hexdigest()[:32]


def _name(text: str) -> str:
    """MLflow allows letters, digits and a few other characters."""
    kept = (c if (c.isascii() and c.isalnum()) or c in _NAME_CHARACTERS else "_" for c in text)
    return "".join(kept)[:_MOST_TEXT]


def _library() -> ModuleType:
    try:
        import mlflow
        import mlflow.entities
        import mlflow.exceptions
    except ImportError as error:
        raise MlflowError("MLflow is not installed: pip install mlflow (or mlflow-skinny)") from error
    library: ModuleType = mlflow
    return library
