"""Trials of layouts on forked ranks, one after another, and what is expected of their records."""

from pathlib import Path

from scalecurve_api.record.rank import WindowKind
from tests.worker.features.layouts.every_layout import BATCH
from tests.worker.trial_series import Cases, Results, run_series
from tests.worker.worker_ranks import SCRIPTS


def run(out: Path, workers: int, cases: Cases) -> Results:
    """Every case's records and verdict."""
    return run_series(out, workers, SCRIPTS / "layouts.py", cases)


def valid(results: Results) -> None:
    found = dict(results)
    verdicts = {name: (verdict.reason, verdict.message) for name, (_, verdict) in found.items()}
    assert verdicts == dict.fromkeys(verdicts, (None, ""))
    for name, (ranks, verdict) in found.items():
        assert next(check.passed for check in verdict.checks if check.name == "WrongMath"), name
        assert sum(record.shard_elements or 0 for record in ranks) == ranks[0].parameters, name
        windows = [window for record in ranks for window in record.windows if window.kind is WindowKind.train]
        tokens = 32 if ranks[0].sample_unit == "tokens" else 1
        assert sum(window.samples for window in windows) == 2 * BATCH * tokens, name
