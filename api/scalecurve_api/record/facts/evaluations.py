"""What a training to accuracy reached after each epoch."""

from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve_api.record.fact_kind import FactKind, Recorded
from scalecurve_api.record.rank import Evaluation
from scalecurve_api.record.tables import EVALS_FILE, encode_evaluations
from scalecurve_api.spec.trial import TrialSpec


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
