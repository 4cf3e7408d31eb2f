"""What a real trial's record leaves unproved, on a machine that may be busy."""

from scalecurve_api.record.checks.proof import unproved
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import InvalidReason


def unproved_at_any_load(record: TrialRecord) -> tuple[InvalidReason, ...]:
    """Without UntimedWork: load may hold up an untimed step, and the tests of that check make up their times."""
    return tuple(reason for reason in unproved(record) if reason is not InvalidReason.untimed_work)
