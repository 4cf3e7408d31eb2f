"""Successive halving: short trials of all candidates, longer ones of the best, and full ones of a few.

As K. Jamieson and A. Talwalkar, arXiv:1502.07943, with steps as the budget: every rung keeps a quarter.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from scalecurve.planning.candidates import grouped, key_of, without
from scalecurve.statistics.intervals import ratio, throughput
from scalecurve.statistics.spread import Point as Repetitions
from scalecurve_api.spec.experiment import FailurePolicy, ScalingExperiment
from scalecurve_api.spec.measure import Repeated, Sessions
from scalecurve_api.spec.trial import Point

FINALISTS = 3
"""Candidates of a worker count that get full trials; so many compete without a rung before"""
KEEP = 4
"""One in so many passes a rung"""
_WINDOWS = 3
_LEAST_STEPS = 2
_WARMUP, _MOST_WARMUP = 5, 20


@dataclass(frozen=True)
class Rung:
    """Trials of one repetition with fewer steps than the experiment has; ``entrants`` and ``passes`` of one group."""

    number: int
    entrants: int
    passes: int
    windows: int
    steps_per_window: int


def rungs(candidates: int, measure: Repeated) -> tuple[Rung, ...]:
    """Plan the rungs before the full trials of so many candidates; none where there are few."""
    sizes = [candidates]
    while sizes[-1] > FINALISTS:
        sizes.append(quota(sizes[-1]))
    total = measure.windows * measure.steps_per_window
    windows = min(_WINDOWS, measure.windows)
    made = []
    for index, (size, passes) in enumerate(pairwise(sizes)):
        share = KEEP ** (len(sizes) - 1 - index)
        steps = max(min(_LEAST_STEPS, measure.steps_per_window), ceil(total / share / windows))
        made.append(Rung(index + 1, size, passes, windows, steps))
    return tuple(made)


def quota(candidates: int) -> int:
    """Return how many of a group pass a rung, ties apart."""
    return max(ceil(candidates / KEEP), min(candidates, FINALISTS))


def entrants(points: Iterable[Point]) -> list[Point]:
    """Select the points whose group still needs a rung; the others wait for their full trials."""
    return [point for members in grouped(points).values() if len(members) > FINALISTS for point in members]


def make_rung_experiment(
    experiment: ScalingExperiment, rung: Rung, points: Sequence[Point], left_out: Sequence[Point]
) -> ScalingExperiment:
    """Make the experiment of one rung: its entrants, each once and briefly. Failures drop a point and end nothing."""
    spec = experiment.spec
    short = {
        "windows": rung.windows,
        "steps_per_window": rung.steps_per_window,
        "warmup_steps": min(spec.measure.warmup_steps, _WARMUP),
        "max_warmup_steps": min(spec.measure.max_warmup_steps, _MOST_WARMUP),
        "repetitions": 1,
        "epoch_samples": None,
        "exposed_communication": False,
        "accuracy": None,
        "sessions": Sessions(),
        "precision": None,
    }
    policy = FailurePolicy(max_failed_trials=len(points))
    changed = {"measure": spec.measure.model_copy(update=short), "failure_policy": policy}
    smaller = experiment.model_copy(update={"spec": spec.model_copy(update=changed)})
    return without(smaller, left_out)


def passed(members: Sequence[Point], samples: Mapping[str, Repetitions], level: float = 0.95) -> list[Point]:
    """Select those of one group that pass: its quota of the fastest, and as many again that may be as fast as the best.

    ``samples`` has what was measured, by ``key_of``; a point without a valid trial does not pass.
    """
    measured = [point for point in members if samples.get(key_of(point))]
    ranked = sorted(measured, key=lambda point: -throughput(samples[key_of(point)], level).value)
    least = quota(len(members))
    best = samples[key_of(ranked[0])] if ranked else ()
    tied = [point for point in ranked[least : 2 * least] if _may_equal(samples[key_of(point)], best, level)]
    return [*ranked[:least], *tied]


def _may_equal(slower: Repetitions, best: Repetitions, level: float) -> bool:
    ends = ratio(slower, best, level).ends
    return ends is not None and ends[1] >= 1
