"""Checks of a layout of parallelism: it computes what one process computes."""

from collections.abc import Sequence

from scalecurve_api.record.layout_facts import Equality
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.trial_record import Check
from scalecurve_api.spec.trial import InvalidReason, TrialSpec
from scalecurve_api.text import count, few


def equality(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """Losses and gradients of the layout are those of one process, within the stated tolerance, on every rank."""
    name = InvalidReason.wrong_math.value
    expected = trial.point.parallelism
    assert expected is not None
    for record in ranks:
        if record.layout is None or record.layout.sizes != expected.sizes:
            made = record.layout.spelled if record.layout is not None else "none"
            detail = f"the layout of rank {record.topology.rank} is {made}, expected {expected.spelled}"
            return Check(name=name, passed=False, detail=detail)
    if unknown := [record.topology.rank for record in ranks if record.equality is None]:
        why = str(ranks[0].options.get("equality", "no comparison with one process"))
        return Check(name=name, passed=None, detail=f"rank {few(unknown)}: {why}")
    pairs = [(record.topology.rank, record.equality) for record in ranks if record.equality is not None]
    for rank, compared in pairs:
        if (wrong := _wrong(compared)) is not None:
            return Check(name=name, passed=False, detail=f"rank {rank}: {wrong}")
    steps = max(len(compared.losses) for _, compared in pairs)
    if not steps:
        return Check(name=name, passed=False, detail="no rank computed a loss")
    worst = max(pairs, key=lambda pair: pair[1].gradient_error)[1]
    detail = (
        f"losses of {count(steps, 'step')} and gradients equal one process's ({expected.spelled}): largest error of a"
    )
    detail += f" gradient {worst.gradient_error:.2g}, tolerance {worst.gradient_tolerance:g}"
    return Check(name=name, passed=True, detail=detail)


def _wrong(compared: Equality) -> str | None:
    pairs = zip(compared.losses, compared.reference, strict=False)
    if len(compared.losses) not in (0, len(compared.reference)):
        return f"{len(compared.losses)} losses, expected {len(compared.reference)}"
    for step, (loss, reference) in enumerate(pairs, 1):
        # Not <=, as no comparison holds for NaN.
        if not abs(loss - reference) <= compared.loss_tolerance * abs(reference):
            detail = f"the loss of step {step} is {loss:.6g}, that of one process {reference:.6g}"
            return f"{detail} (tolerance {compared.loss_tolerance:g}, relative)"
    if not compared.gradient_error <= compared.gradient_tolerance:
        detail = f"the gradient of {compared.parameter} differs from one process's by {compared.gradient_error:.3g}"
        return f"{detail} of its norm (tolerance {compared.gradient_tolerance:g})"
    return None
