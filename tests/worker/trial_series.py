"""Trials one after another in the same forked ranks; one that fails leaves the others their results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from scalecurve_api.contract import rank_file
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.verdict import Verdict, judge
from scalecurve_api.spec.trial import TrialSpec
from tests.worker.forked_ranks import fork_ranks
from tests.worker.worker_ranks import records

Cases = dict[str, tuple[str, TrialSpec]]
"""By name: what is broken in the trial, and the trial."""
Result = tuple[list[RankRecord], Verdict]


class Results(Mapping[str, Result]):
    """Every case's records and verdict; to read a case whose ranks failed raises what they printed."""

    def __init__(self, results: Mapping[str, Result | Exception]) -> None:
        self._results = results

    def __getitem__(self, name: str) -> Result:
        result = self._results[name]
        if isinstance(result, Exception):
            raise AssertionError(f"case {name}: {result}") from result
        return result

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def of(self, *names: str) -> Results:
        """These cases alone."""
        return Results({name: self._results[name] for name in names})


def run_series(out: Path, workers: int, script: Path, cases: Cases) -> Results:
    """Run the cases of a script in the same ranks; those behind one that fails run in new ranks."""
    failed: dict[str, AssertionError] = {}
    remaining = list(cases)
    while remaining:
        wire = json.dumps([[name, cases[name][0], cases[name][1].wire()] for name in remaining])
        try:
            fork_ranks(out, workers, script, CASES=wire)
            break
        except AssertionError as error:
            culprit = failing(out, workers, remaining)
            failed[culprit] = error
            remaining = remaining[remaining.index(culprit) + 1 :]
    return Results(
        {name: failed.get(name) or _try_to_judge(out / name, workers, trial) for name, (_, trial) in cases.items()}
    )


def failing(out: Path, workers: int, names: list[str]) -> str:
    """The case in which a rank raised, else the first one without all records: a rank was killed in it."""
    marked = (name for name in names if (out / name / "failed").exists())
    unfinished = (name for name in names if not all((out / name / rank_file(rank)).exists() for rank in range(workers)))
    return next(marked, None) or next(unfinished, names[-1])


def _try_to_judge(out: Path, workers: int, trial: TrialSpec) -> Result | Exception:
    try:
        return judged(out, workers, trial)
    except Exception as error:
        return error


def judged(out: Path, workers: int, trial: TrialSpec) -> Result:
    """The records of an ended trial and its verdict; shared cores are not held against them."""
    apart = [
        record.model_copy(
            update={"foreign_load": None, "topology": record.topology.model_copy(update={"cores": [rank]})}
        )
        for rank, record in enumerate(records(out, workers))
    ]
    return apart, judge(trial, dict(enumerate(apart)), Outcome(engine="local"))
