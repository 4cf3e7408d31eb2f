"""Was the run what the experiment requested? Rank records and outcome -> phase, reason, and checks with evidence.

A check is passed, not passed, or could not be made (None), and says why. A check that carries the name of an
``InvalidReason``, or is an installed package's, and did not pass makes the trial Invalid; the others warn.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scalecurve_api.record.checks import placement as placed
from scalecurve_api.record.checks import proof
from scalecurve_api.record.checks import training as trained
from scalecurve_api.record.checks import transport as carried
from scalecurve_api.record.checks.registered import fact_checks, makes_invalid, package_checks
from scalecurve_api.record.fact_kind import known_kinds
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord, WindowKind
from scalecurve_api.record.trial_record import Check
from scalecurve_api.spec.trial import FailedReason, InvalidReason, TrialPhase, TrialSpec
from scalecurve_api.text import count, few

SAME_SOFTWARE = "SameSoftware"
SAME_VERSION = "SameVersion"


@dataclass(frozen=True)
class Verdict:
    """The final phase of an attempt, and why."""

    phase: TrialPhase
    reason: str | None
    message: str
    checks: tuple[Check, ...]


def judge(trial: TrialSpec, ranks: Mapping[int, RankRecord], outcome: Outcome) -> Verdict:
    """Decide the final phase: a run that failed is Failed, one that is not what was requested is Invalid.

    Memory that is full is no failure where the batch is raised until it is.
    """
    if outcome.cancelled:
        return Verdict(TrialPhase.cancelled, None, outcome.message or "cancelled", ())
    checks = tuple(_checks(trial, [ranks[rank] for rank in sorted(ranks)], outcome))
    if outcome.failure is not None:
        ends_ladder = trial.point.rung is not None and outcome.failure is FailedReason.out_of_memory
        phase = TrialPhase.full if ends_ladder else TrialPhase.failed
        return Verdict(phase, outcome.failure.value, outcome.message, checks)
    broken = [check for check in checks if makes_invalid(check)]
    if broken:
        return Verdict(TrialPhase.invalid, broken[0].name, "; ".join(check.detail for check in broken), checks)
    return Verdict(TrialPhase.succeeded, None, "", checks)


def _checks(trial: TrialSpec, ranks: Sequence[RankRecord], outcome: Outcome) -> Iterator[Check]:
    if outcome.unreadable is not None:
        yield Check(name=InvalidReason.records_unreadable.value, passed=False, detail=outcome.unreadable)
        return
    if outcome.restarts:
        detail = f"its pods started again {outcome.restarts} times: the runtime restarts what fails"
        yield Check(name=InvalidReason.restarted.value, passed=False, detail=detail)
    yield complete(trial, ranks, outcome.missing)
    if not ranks:
        return
    yield world_size(trial, ranks)
    # Ranks in the wrong place crowd there: that they share its cores is what follows.
    yield placed.placement(trial, ranks, outcome)
    yield placed.oversubscribed(ranks, outcome)
    if trial.workload.reported:
        yield proof.reported()
        if (rate := proof.printed(trial, ranks)) is not None:
            yield rate
    else:
        yield from _process_checks(trial, ranks)
    yield from fact_checks(trial, ranks)
    yield trained.samples(trial, ranks)
    if not trial.workload.reported:
        yield trained.untimed(trial, ranks)
    if (clock := trained.clock(ranks)) is not None:
        yield clock
    yield trained.check_frozen_layers(trial, ranks)
    yield trained.finite_loss(ranks)
    if (peak := trained.peak(ranks)) is not None:
        yield peak
    yield placed.throttled(ranks)
    yield placed.neighbors(trial, ranks)
    yield placed.stolen(trial, ranks)
    yield from package_checks(trial, ranks, outcome)
    yield _software(ranks)
    if outcome.engine_version is not None:
        yield _version(ranks[0].versions.get("scalecurve"), outcome.engine_version)


def _process_checks(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Iterator[Check]:
    """What a process can see of a training that runs in it."""
    yield trained.backend(trial, ranks)
    if (way := carried.transport(trial, ranks)) is not None:
        yield way
    yield trained.strategy(trial, ranks)
    yield proof.training(trial, ranks)
    if trial.point.workers > 1:
        yield proof.communication(trial, ranks)
        yield proof.data(trial, ranks)
    yield trained.replicas(trial, ranks)


def complete(trial: TrialSpec, ranks: Sequence[RankRecord], why: str | None = None) -> Check:
    """Every rank left a record of every window; ``why`` tells what else is known of those that did not."""
    name = InvalidReason.records_missing.value
    missing = sorted(set(range(trial.point.workers)) - {record.topology.rank for record in ranks})
    if missing:
        detail = f"no record from rank {few(missing)} of {trial.point.workers}"
        return Check(name=name, passed=False, detail=f"{detail}: {why}" if why else detail)
    if trial.workload.calls() is not None:
        rows = sum(len(kind.of(ranks[0])) for kind in known_kinds() if kind.is_result)
        return Check(name=name, passed=rows > 0, detail=f"{rows} message sizes measured")
    expected = trial.measure.windows
    for record in ranks:
        train = [window for window in record.windows if window.kind is WindowKind.train]
        if len(train) != expected or any(window.steps != trial.measure.steps_per_window for window in train):
            steps = sum(window.steps for window in train)
            detail = f"rank {record.topology.rank} measured {count(len(train), 'window')}, {count(steps, 'step')}; "
            each = count(trial.measure.steps_per_window, "step")
            detail += f"expected {count(expected, 'window')} of {each}"
            if trial.workload.reported:
                detail += ": let the program train for more steps"
            elif not trial.workload.built_in:
                detail += ": let bench.steps() or bench.step() end the loop, and call finish() after it"
            return Check(name=name, passed=False, detail=detail)
    return Check(name=name, passed=True, detail=f"{count(len(ranks), 'rank')}, {count(expected, 'window')} each")


def world_size(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """Every rank saw as many workers as were requested."""
    expected = trial.point.workers
    worlds = sorted({record.world for record in ranks})
    passed = worlds == [expected] and len(ranks) == expected
    return Check(
        name=InvalidReason.wrong_world_size.value,
        passed=passed,
        detail=f"world size {few(worlds)}, expected {expected}" if not passed else f"world size {expected}",
    )


def _software(ranks: Sequence[RankRecord]) -> Check:
    first = ranks[0]
    differs = [r.topology.rank for r in ranks if (r.versions, r.environment) != (first.versions, first.environment)]
    detail = f"rank {few(differs)} differs from rank {first.topology.rank}" if differs else "the same on every rank"
    return Check(name=SAME_SOFTWARE, passed=not differs, detail=detail)


def _version(worker: str | None, engine: str) -> Check:
    """A warning: an older worker does not know what the engine's version added."""
    if worker is None:
        detail = f"the worker's version is unknown; the engine has scalecurve {engine}"
        return Check(name=SAME_VERSION, passed=None, detail=detail)
    if worker == engine:
        return Check(name=SAME_VERSION, passed=True, detail=f"scalecurve {engine} everywhere")
    detail = (
        f"the worker's image has scalecurve {worker}, the engine {engine}; features of only one of them were not used"
    )
    return Check(name=SAME_VERSION, passed=False, detail=detail)
