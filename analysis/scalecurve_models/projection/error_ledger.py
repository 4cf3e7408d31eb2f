"""Predictions kept in the bundle of the run that they are about, and scored when it has come.

``predictions/<digest>.json`` has the points; the bundle's ledger names the file and its sha256 in a line of its chain.
A prediction was made before a run if that line comes before the run's first attempt.
"""

import fcntl
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from scalecurve.bundle.measurement import MeasuredPoint, measure
from scalecurve.bundle.open import Bundle, files_of, open_bundle
from scalecurve.bundle.problem import BundleError, FileError
from scalecurve.bundle.record_file import EXPERIMENT_FILE
from scalecurve_api.files import Within
from scalecurve_api.model import Model, canonical_json
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.ledger import PREDICTIONS_FOLDER, Event
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.release import release
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.projection.projection import Projection

PREDICTION_SCHEMA: Final = "scalecurve.dev/prediction/v1alpha1"
MAX_PREDICTION_BYTES = 4 << 20


class PredictedPoint(Model):
    """What one point will take."""

    point: str
    series: str
    workers: int
    nodes: int
    step_s: float
    throughput: float
    memory_bytes: float | None = None
    assumptions: list[str] = []


class RecordedPrediction(Model):
    """Points that were predicted together, by one model; ``measured`` has the ledgers' digests of its bundles."""

    schema_: Literal["scalecurve.dev/prediction/v1alpha1"] = PREDICTION_SCHEMA
    model: str
    experiment: str
    version: str
    measured: dict[str, str] = {}
    points: list[PredictedPoint]


@dataclass(frozen=True)
class Score:
    """A predicted point with what was measured there; ``before`` tells whether the prediction came first."""

    model: str
    predicted: PredictedPoint
    step_s: float
    memory_bytes: int | None
    before: bool

    @property
    def step_error(self) -> float:
        return self.predicted.step_s / self.step_s - 1

    @property
    def memory_error(self) -> float | None:
        if self.memory_bytes is None or self.predicted.memory_bytes is None:
            return None
        return self.predicted.memory_bytes / self.memory_bytes - 1


def prediction_of(
    experiment: ScalingExperiment, projections: Sequence[Projection], measured: Sequence[Bundle]
) -> RecordedPrediction:
    """The points of an experiment that were not refused. Raises FitError where none is left."""
    points = [
        PredictedPoint(
            point=each.trial.point.name,
            series=each.trial.point.series,
            workers=each.trial.point.workers,
            nodes=each.trial.point.nodes,
            step_s=each.replayed.step_s,
            throughput=each.throughput,
            memory_bytes=each.memory_bytes,
            assumptions=list(each.assumptions),
        )
        for each in projections
        if each.replayed is not None and each.throughput is not None
    ]
    if not points:
        raise FitError("--record: every point was refused; there is nothing to record")
    digests = {bundle.label: bundle.ledger.digest if bundle.ledger else "" for bundle in measured}
    name = experiment.metadata.name
    return RecordedPrediction(model="projection", experiment=name, version=release(), measured=digests, points=points)


def record_prediction(folder: Path, experiment: ScalingExperiment, text: str, prediction: RecordedPrediction) -> str:
    """Keep a prediction in a bundle, which is made where there is none; the name of its file.

    Raises FitError for a packed bundle, one of another experiment, or one that is being run; OSError when it cannot be
    written.
    """
    if folder.exists() and not folder.is_dir():
        raise FitError(f"{folder}: is a file; --record needs a bundle's folder")
    if folder.exists() and any(folder.iterdir()):
        _refuse_another(folder, experiment)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        (Within(folder) / EXPERIMENT_FILE).write(text.encode())
        LedgerFile(folder).begin(text.encode(), make_plan(experiment).trials, {})
    data = (canonical_json(prediction.wire()) + "\n").encode()
    name = f"{hashlib.sha256(data).hexdigest()[:12]}.json"
    with _lock_bundle(folder):
        place = Within(folder) / PREDICTIONS_FOLDER
        place.make()
        (place / name).write(data)
        LedgerFile(folder).predicted({name: data})
    return name


def predictions_in(bundle: Bundle) -> Iterator[tuple[RecordedPrediction, int]]:
    """The predictions that the bundle's ledger names, unchanged, with the number of their line.

    Raises FitError for one that is missing or was changed.
    """
    files = files_of(bundle.path)
    for entry in bundle.ledger.of(Event.predicted) if bundle.ledger else ():
        for name, digest in (entry.predictions or {}).items():
            try:
                data = files.read(f"{PREDICTIONS_FOLDER}/{name}", MAX_PREDICTION_BYTES)
                if hashlib.sha256(data).hexdigest() != digest:
                    raise FileError("was changed after it was recorded")
                yield RecordedPrediction.model_validate_json(data), entry.n
            except (FileError, ValidationError) as error:
                raise FitError(f"{bundle.path}/{PREDICTIONS_FOLDER}/{name}: {error}") from error


def scores(bundle: Bundle) -> list[Score]:
    """Every recorded prediction of a point that was measured since. Raises FitError as :func:`predictions_in`."""
    measured = {point.point.name: point for series in measure(bundle) for point in series.points if point.steps}
    return [
        Score(prediction.model, predicted, _step_s(point), _peak(point), _is_before(bundle, point, line))
        for prediction, line in predictions_in(bundle)
        for predicted in prediction.points
        if (point := measured.get(predicted.point)) is not None
    ]


def _is_before(bundle: Bundle, point: MeasuredPoint, line: int) -> bool:
    """Whether a line of a sound chain comes before every attempt at the point."""
    ledger = bundle.ledger
    if ledger is None or ledger.breaks:
        return False
    attempts = [entry.n for trial in point.trials for entry in ledger.by_trial.get(trial.name, ())]
    return bool(attempts) and line < min(attempts)


def _step_s(point: MeasuredPoint) -> float:
    """Mean over repetitions."""
    means = [totals.total_wall_s / totals.total_samples for totals in point.steps]
    return sum(means) / len(means)


def _peak(point: MeasuredPoint) -> int | None:
    peaks = [record.summary.peak_memory_bytes for record in point.good if record.summary]
    return max((peak for peak in peaks if peak is not None), default=None)


def _refuse_another(folder: Path, experiment: ScalingExperiment) -> None:
    try:
        bundle = open_bundle(folder)
    except BundleError as error:
        raise FitError(f"--record: {error}") from error
    if bundle.experiment is None or bundle.experiment.wire() != experiment.wire():
        raise FitError(f"{folder}: holds another experiment; --record needs the bundle of this one, or a new folder")


@contextmanager
def _lock_bundle(folder: Path) -> Iterator[None]:
    """Hold an engine's lock on the bundle, whose ledger takes one writer at a time."""
    lock = folder / ".work" / "lock"
    if not lock.exists():
        yield
        return
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FitError(f"{folder}: a run is using this bundle; record the prediction before it starts") from None
        yield
