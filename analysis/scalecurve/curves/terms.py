"""Lost efficiency from the anatomies of two points' steps: terms that add up to it, each with its interval.

With r the share of the baseline's step that an ideal curve spends at the larger count, a cause that takes X seconds of
a step there and X0 at the baseline costs X - r X0, and these sum to the step less r times the baseline's step: what is
lost. E = r T0 / T by definition of r, so no cause is left over; what no section explains is a cause of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve.curves.anatomy import CAUSES, StepAnatomy, mean_parts
from scalecurve.statistics.estimate import LARGEST_PART, Estimate, Method
from scalecurve.statistics.spread import Spread, total, weighted_mean


@dataclass(frozen=True)
class Cause:
    """One cause's cost as a share of the step, and its seconds there and at the baseline."""

    name: str
    share: Estimate
    seconds: float
    before_s: float


@dataclass(frozen=True)
class ParallelEfficiency:
    """POP's factors at one count; ``computation`` is that of the baseline's work at this count over the work here.

    Parallel efficiency is load balance times communication efficiency; times the computation scaling it is the global
    efficiency. M. Wagner et al., "Performance analysis and optimization with the POP methodology" (pop-coe.eu).
    """

    load_balance: float
    communication: float
    computation: float

    @property
    def parallel(self) -> float:
        return self.load_balance * self.communication

    @property
    def overall(self) -> float:
        return self.parallel * self.computation


def causes(last: Sequence[StepAnatomy], base: Sequence[StepAnatomy], efficiency: Estimate) -> tuple[Cause, ...]:
    """What costs efficiency at ``last`` against ``base``; shares add up to 1 - efficiency."""
    step, ideal = _mean([each.step_s for each in last]), _ideal(last, base, efficiency.value)
    here, before = mean_parts(last), mean_parts(base)
    return tuple(
        Cause(
            name,
            _estimate((here[name] - ideal * before[name]) / step, name, last, base, ideal / step, step, efficiency),
            here[name],
            before[name],
        )
        for name in CAUSES
        if any(each.parts.get(name) for each in (*last, *base))
    )


def parallel_efficiency(
    last: Sequence[StepAnatomy], base: Sequence[StepAnatomy], efficiency: float
) -> ParallelEfficiency | None:
    """POP's model; None where a rank's own work is not known at either count."""
    if not all(each.own_s for each in (*last, *base)):
        return None
    worked = _mean([_mean(each.own_s) for each in last])
    return ParallelEfficiency(
        load_balance=worked / _mean([max(each.own_s) for each in last]),
        communication=_mean([max(each.own_s) for each in last]) / _mean([each.step_s for each in last]),
        computation=_ideal(last, base, efficiency) * _mean([_mean(each.own_s) for each in base]) / worked,
    )


def _ideal(last: Sequence[StepAnatomy], base: Sequence[StepAnatomy], efficiency: float) -> float:
    """The share of the baseline's step that an ideal curve spends at the larger count."""
    return efficiency * _mean([each.step_s for each in last]) / _mean([each.step_s for each in base])


def _estimate(
    value: float,
    name: str,
    last: Sequence[StepAnatomy],
    base: Sequence[StepAnatomy],
    ideal: float,
    step: float,
    efficiency: Estimate,
) -> Estimate:
    """With Welch's interval over repetitions, or over sessions where there are several."""
    level, repetitions = efficiency.level, min(len(last), len(base))
    here, before = (_cause_seconds(side, name) for side in (last, base))
    if min(len(here), len(before)) < 2:
        return Estimate(value, None, None, level, Method.NONE, repetitions)
    spreads = [_spread([seconds / step for seconds in here]), _spread([ideal * seconds for seconds in before])]
    half = total(spreads).half_width(level)
    sessions = len({each.session for each in last})
    if half > LARGEST_PART:
        return Estimate.not_known(value, level, repetitions, sessions)
    method = Method.SESSIONS if sessions > 1 else Method.WELCH
    return Estimate(value, value - half, value + half, level, method, repetitions, sessions)


def _cause_seconds(anatomies: Sequence[StepAnatomy], name: str) -> list[float]:
    """Seconds of a cause in each repetition, or their means where there are several sessions."""
    sessions: dict[int, list[float]] = {}
    for each in anatomies:
        sessions.setdefault(each.session, []).append(each.parts.get(name, 0.0))
    values = list(sessions.values())
    return values[0] if len(values) == 1 else [_mean(session) for session in values]


def _spread(values: Sequence[float]) -> Spread:
    return weighted_mean(values, [1 / len(values)] * len(values))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
