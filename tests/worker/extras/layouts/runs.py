"""Trials of layouts on forked ranks, one after another, and what is expected of their records."""

import json
from pathlib import Path

from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord, WindowKind
from scalecurve_api.record.verdict import Verdict, judge
from scalecurve_api.spec.trial import TrialSpec
from tests.worker.extras.layouts.every_layout import BATCH
from tests.worker.forked_ranks import fork_ranks
from tests.worker.worker_ranks import SCRIPTS, records

Cases = dict[str, tuple[str, TrialSpec]]
Results = dict[str, tuple[list[RankRecord], Verdict]]


def run(out: Path, workers: int, cases: Cases) -> Results:
    """Every case's records and verdict; shared cores are not held against them."""
    wire = json.dumps([[name, fault, each.wire()] for name, (fault, each) in cases.items()])
    fork_ranks(out, workers, SCRIPTS / "layouts.py", CASES=wire)
    return {name: judged(out / name, workers, each) for name, (_, each) in cases.items()}


def judged(out: Path, workers: int, each: TrialSpec) -> tuple[list[RankRecord], Verdict]:
    apart = [
        record.model_copy(
            update={"foreign_load": None, "topology": record.topology.model_copy(update={"cores": [rank]})}
        )
        for rank, record in enumerate(records(out, workers))
    ]
    return apart, judge(each, dict(enumerate(apart)), Outcome(engine="local"))


def valid(results: Results) -> None:
    verdicts = {name: (verdict.reason, verdict.message) for name, (_, verdict) in results.items()}
    assert verdicts == dict.fromkeys(verdicts, (None, ""))
    for name, (ranks, verdict) in results.items():
        assert next(check.passed for check in verdict.checks if check.name == "WrongMath"), name
        assert sum(record.shard_elements or 0 for record in ranks) == ranks[0].parameters, name
        windows = [window for record in ranks for window in record.windows if window.kind is WindowKind.train]
        tokens = 32 if ranks[0].sample_unit == "tokens" else 1
        assert sum(window.samples for window in windows) == 2 * BATCH * tokens, name
