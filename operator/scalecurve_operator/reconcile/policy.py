"""What the operator's settings do not let an experiment do. It is asked before the first trial, and never again."""

from scalecurve_api.spec.pod_options import PodOptions
from scalecurve_api.text import count
from scalecurve_operator.cache.trial_index import TrialIndex
from scalecurve_operator.settings import Settings

SMALLEST_RECORD = 1 << 14
"""A record of fewer bytes could drop the ranks themselves."""


def record_share(settings: Settings, index: TrialIndex) -> int:
    """Bytes that the record of an attempt may have, the same for every attempt, so that all together fit the budget."""
    return min(settings.record_bytes, settings.experiment_record_bytes // _attempts(index))


def violations(settings: Settings, index: TrialIndex) -> list[str]:
    """Why the experiment may not start; each names the field, its value and what is allowed."""
    spec, problems = index.spec, []
    if settings.unlisted_pools == "refuse" and spec.pool not in settings.pools:
        problems.append(f"spec.pool: {spec.pool!r}: this operator has the pools {', '.join(sorted(settings.pools))}")
    asked_for, default = spec.pod.wire(), PodOptions().wire()
    problems += [
        f"spec.pod.{option}: {asked_for[option]!r}: forbidden on this cluster (forbiddenPodOptions)"
        for option in settings.forbidden_pod_options
        if asked_for.get(option) != default.get(option)
    ]
    if (share := record_share(settings, index)) < SMALLEST_RECORD:
        problems.append(
            f"spec: {count(_attempts(index), 'attempt')} with {share} bytes of record each, of which "
            f"{SMALLEST_RECORD} are needed; plan fewer trials, or raise "
            f"experimentRecordBytes, {settings.experiment_record_bytes}"
        )
    return problems


def _attempts(index: TrialIndex) -> int:
    """The most whose records are kept."""
    policy = index.spec.failure_policy
    return max(1, len(index.names)) * (1 + policy.retries + policy.retry_invalid)
