"""Frozen layers must be bit-equal before and after training, and on every rank."""

from collections.abc import Sequence

from scalecurve_api.programs.torch import TorchWorkload, Trainable
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.trial_record import Check
from scalecurve_api.spec.trial import InvalidReason, TrialSpec

_MOMENTS = ("before training", "after the timed windows", "after the training to accuracy")


def frozen_unchanged(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """Compare the checksums of what ``workload.transfer.train: head`` freezes, over time and over ranks."""
    name = InvalidReason.frozen_changed.value
    if not isinstance(trial.workload, TorchWorkload) or trial.workload.transfer.train is not Trainable.head:
        return Check(name=name, passed=True, detail="no layer was frozen")
    moments = 3 if trial.measure.accuracy is not None else 2
    first = ranks[0].frozen_checksums
    for record in ranks:
        sums, rank = record.frozen_checksums, record.topology.rank
        if len(sums) != moments:
            detail = f"rank {rank} has {len(sums)} checksums of its frozen layers, expected {moments}"
            return Check(name=name, passed=False, detail=detail)
        changed = [moment for moment, checksum in zip(_MOMENTS, sums, strict=False) if checksum != sums[0]]
        if changed:
            detail = f"the frozen layers of rank {rank} differ {changed[0]} from {_MOMENTS[0]}"
            return Check(name=name, passed=False, detail=detail)
        if sums != first:
            detail = f"the frozen layers of rank {rank} differ from those of rank {ranks[0].topology.rank}"
            return Check(name=name, passed=False, detail=detail)
    return Check(name=name, passed=True, detail=f"frozen layers bit-equal at {moments} moments on {len(ranks)} ranks")
