"""What a training to accuracy reached after each epoch."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from scalecurve_api.model import Int64, Model
from scalecurve_api.record.fact_kind import FactKind, Recorded
from scalecurve_api.record.tables import EVALS_FILE, encode_rows
from scalecurve_api.spec.trial import TrialSpec

EVALUATIONS_FILE = "evals.jsonl"
"""A rank's, which has a row as soon as its epoch is over."""


class Evaluation(Model):
    """One row of ``evals.parquet``: ``wall_s`` is training time so far, without evaluation."""

    epoch: Int64
    step: Int64
    wall_s: float
    train_loss: float
    loss: float
    accuracy: float
    train_accuracy: float | None = Field(default=None, description="over the epoch's batches, as they were trained on")


def encode_evaluations(evaluations: Sequence[Evaluation]) -> bytes:
    """Encode evaluations as ``evals.parquet``: one row each, in the order they happened."""
    import pyarrow as pa

    kinds = {"epoch": pa.int32(), "step": pa.int64()}
    names = ("epoch", "step", "wall_s", "train_loss", "loss", "accuracy", "train_accuracy")
    schema = pa.schema(
        [pa.field(name, kinds.get(name, pa.float64()), nullable=name == "train_accuracy") for name in names]
    )
    return encode_rows(schema, evaluations)


def _summary(trial: TrialSpec, rank: Recorded) -> Mapping[str, Any]:
    evaluations = EVALUATIONS.of(rank)
    target = trial.measure.accuracy.target if trial.measure.accuracy else None
    reached = (row.wall_s for row in evaluations if target is not None and row.accuracy >= target)
    return {
        "final_accuracy": evaluations[-1].accuracy if evaluations else None,
        "best_accuracy": max((row.accuracy for row in evaluations), default=None),
        "seconds_to_target": next(reached, None),
    }


EVALUATIONS: FactKind[Sequence[Evaluation]] = FactKind(
    "evaluations",
    list[Evaluation],
    (),
    bounds={"": {"epoch": (0, 1e7), "wall_s": (0, 1e10), **dict.fromkeys(("accuracy", "train_accuracy"), (0, 1))}},
    summary=_summary,
    tables=lambda evaluations: {EVALS_FILE: encode_evaluations(evaluations)},
)
