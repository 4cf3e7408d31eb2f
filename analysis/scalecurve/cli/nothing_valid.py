"""Why a run of a command has no valid trial, in one line."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from scalecurve_api.spec.trial import TrialPhase
from scalecurve_api.text import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalecurve_api.spec.measure import Measure
    from scalecurve_local import RunResult

_FIELD = re.compile(r"\b(?:workload|measure|scaling)\.[a-z]\w*")


def why_nothing_is_valid(result: RunResult, measure: Measure, budget_s: float, workers: Sequence[int] = ()) -> str:
    """Tell in one line why no trial is valid, with the reason's code, and where to look or what to change."""
    bad = (TrialPhase.failed, TrialPhase.invalid)
    failed = {
        name: f"{record.reason or record.phase.value}: {record.message}"
        for name, record in result.records.items()
        if record.phase in bad
    }
    if not failed:
        steps = measure.warmup_steps + measure.windows * measure.steps_per_window
        rate = result.pace.steps_per_second if result.pace else None
        took = f", and {1 / rate:.2g} s each" if rate else ""
        return (
            f"no trial finished within --budget, {budget_s:g} s: raise it, or lower --steps "
            f"(a trial has at least {count(steps, 'step')}{took})"
        )
    (why, times), *_ = Counter(failed.values()).most_common(1)
    logs = result.bundle / "trials" / next(name for name in failed if failed[name] == why) / "logs"
    fields = sorted(set(_FIELD.findall(why)))
    hint = "; --steps sets fewer" if any(field.startswith("measure.") for field in fields) else ""
    hint += f"; --yaml FILE writes an experiment, where {fields[0]} is a field" if fields and not hint else ""
    ended = "the only one that ended" if len(failed) == 1 else f"{times} of {len(failed)} that ended"
    late = f"; --budget ended the run after {result.status.message}" if result.out_of_time else ""
    rest = len(result.status.phases) - len(result.records)
    skipped = f"; not started after that: {count(rest, 'trial')}" if result.futile and rest else ""
    skipped += _untried(result, workers) if skipped else ""
    return f"no trial is valid; {ended}: {why}{hint}{late}{skipped}; logs: {logs}"


def _untried(result: RunResult, workers: Sequence[int]) -> str:
    """The option with the worker counts beyond those that were tried: a script may need more than one."""
    most = max(record.trial.point.workers for record in result.records.values())
    left = [str(each) for each in workers if each > most]
    return f" (if the script needs more than {count(most, 'worker')}: --workers {','.join(left)})" if left else ""
