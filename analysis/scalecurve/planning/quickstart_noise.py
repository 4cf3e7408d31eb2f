"""What disturbed a quickstart, in the first lines of its output, and what to do about it. Pure."""

from collections.abc import Sequence

from scalecurve.render import formatting
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import InvalidReason, TrialPhase
from scalecurve_api.text import count

NOTICED = 0.1  # a share of the cores below this is not mentioned; an idle machine has a few per cent
_STOP_THEM = "stop them, or run on an idle machine"
_MOVE = "use dedicated cores, another machine, or another time; nothing on this machine helps"


def before(busy: float, stolen: float) -> list[str]:
    """Lines about the load that was there before anything ran, given as shares of the cores."""
    lines = []
    if busy >= NOTICED:
        lines.append(
            f"busy: other processes use {formatting.percent(busy, 0)} of the cores; stop them, or expect noisy numbers"
        )
    if stolen >= NOTICED:
        lines.append(
            f"busy: the hypervisor takes {formatting.percent(stolen, 0)} of the cores for other guests; {_MOVE}"
        )
    return lines


def after(name: str, records: Sequence[TrialRecord], trials: int, resume: str) -> list[str]:
    """Lines about trials that noise made invalid, or that the time limit left no room for."""
    lines = []
    for reason, taker, advice in (
        (InvalidReason.noisy_neighbor, "other processes", _STOP_THEM),
        (InvalidReason.cpu_steal, "the hypervisor", _MOVE),
    ):
        invalid = [record for record in records if record.phase is TrialPhase.invalid and record.reason == reason]
        if invalid:
            loads = [r.foreign_load if reason is InvalidReason.noisy_neighbor else r.stolen_load for r in invalid]
            most = max((load or 0.0 for of_record in loads for load in of_record), default=0.0)
            lines.append(
                f"too noisy: {len(invalid)} of {count(trials, 'trial')} of {name} are Invalid ({reason.value}): "
                f"{taker} took up to {formatting.percent(most, 0)} of their cores; {advice}"
            )
    if len(records) < trials:
        lines.append(f"out of time: {len(records)} of {count(trials, 'trial')} of {name} ran; the rest: {resume}")
    return lines
