"""How well a loss curve fitted to the first part of a run predicts the rest."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.optimus.loss import MODEL, LossFit, fit_loss

FRACTIONS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Refit:
    """The fit after ``seen`` points: the curve, and its mean error on the points still to come."""

    seen: int
    share: float
    fit: LossFit | None
    failure: str
    ahead_error: float | None
    last_error: float | None


def refits(
    steps: Sequence[float], losses: Sequence[float], fractions: Sequence[float] = FRACTIONS
) -> tuple[Refit, ...]:
    """Fit the first 10 %, 20 %, … of the points and compare each curve with the rest.

    ``ahead_error`` is mean |predicted/measured - 1| over the later points, ``last_error`` that of the last tenth of
    the full run (its median loss, since single steps scatter). Raises FitError for columns of different length,
    or fractions outside (0, 1].
    """
    if len(steps) != len(losses):
        raise FitError(f"{MODEL}: expected as many steps as losses, got {len(steps)} and {len(losses)}")
    if any(not 0 < share <= 1 for share in fractions):
        raise FitError(
            f"{MODEL}: shares of a run must be in (0, 1], got {', '.join(f'{share:g}' for share in fractions)}"
        )
    order = np.argsort(np.asarray(steps, dtype=np.float64), kind="stable")
    k, loss = np.asarray(steps, dtype=np.float64)[order], np.asarray(losses, dtype=np.float64)[order]
    tail = slice(int(len(k) * 0.9), None)
    out = []
    for share in fractions:
        seen = max(1, round(len(k) * share))
        try:
            fit = fit_loss(k[:seen].tolist(), loss[:seen].tolist())
        except FitError as error:
            out.append(Refit(seen, share, None, str(error), None, None))
            continue
        errors = fit.loss(k) / loss - 1
        ahead = float(np.abs(errors[seen:]).mean()) if seen < len(k) else None
        last = float(np.median(fit.loss(k[tail])) / np.median(loss[tail]) - 1)
        out.append(Refit(seen, share, fit, "", ahead, last))
    return tuple(out)
