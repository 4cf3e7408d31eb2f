"""Where the time of a trial goes that no step needs: from its turn to its first measured step, and on to the next.

    make cluster-quickstart KEEP=1; export KUBECONFIG=...
    PYTHONPATH=. python docs/evidence/cluster/scripts/latency.py EXPERIMENT.yaml FOLDER    applies it in `bench`

Each row is one trial, in seconds, in the order in which the parts follow one another:

    operator     the turn is known -> its job is created: from `kubectl apply`, or from the end of the trial before
    job          -> the job's own operator has made every worker pod
    schedule     -> each has a node
    start        -> all containers run: image (there already), sandbox, network, volumes
    load         -> the last rank has begun: under mpirun the launcher's pod too, then interpreter, framework
    join         -> the first step: ranks meet, the model is built
    warm-up      -> the first measured step
    measure      -> the last measured step has ended
    publish      -> the pod with the record has ended: checks, record, linger for a last scrape
    notice       -> the job says that it has ended
    collect      -> the operator has judged and kept the record
"""

import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from moments import Moment, Moments
from stages import Stages

from scalecurve.bundle.open import open_bundle
from scalecurve_api.record.trial_record import TrialRecord
from tools.devcluster.nodes.existing import ExistingCluster

Row = dict[str, Any]

PARTS = (
    "operator", "job", "schedule", "start", "load", "join", "warm-up", "measure", "publish", "notice", "collect",
)  # fmt: skip
OWN = ("operator", "collect")
"""What ScaleCurve's operator answers for."""


def breakdown(moments: Moments, namespace: str, experiment: str, bundle: Path, applied_at: float) -> list[Row]:
    """A row for every trial of the bundle that succeeded at its first attempt, in the order they ran."""
    found = []
    for trial in open_bundle(bundle).trials:
        if trial.record is not None and trial.record.windows and trial.record.attempt == 1:
            seen = Seen(moments, namespace, f"{experiment}-{trial.name}", trial.record)
            found.append((seen.job_created, trial.name, seen, trial.record))
    rows, before = [], applied_at
    for _, name, seen, record in sorted(found, key=lambda each: each[0]):
        times = [before, *seen.times()]
        spans = zip(PARTS, itertools.pairwise(times), strict=True)
        parts = {part: round(max(0.0, end - begin), 3) for part, (begin, end) in spans}
        point = record.trial.point
        rows.append({"trial": name, "workers": point.workers, "layout": point.layout, **parts})
        before = times[-1]
    return rows


class Seen:
    """What was seen of one trial's only attempt."""

    def __init__(self, moments: Moments, namespace: str, trial: str, record: TrialRecord) -> None:
        self._record = record
        self._pods = moments.of("pods", namespace, trial=trial)
        runner = str(record.trial.runner or "Job")
        self._jobs = [each for each in moments.of(runner, namespace, trial=trial) if each.label("attempt") == "1"]
        self._trials = [each for each in moments.of("trials", namespace) if each.name == trial]
        self.job_created = self._jobs[0].at

    def times(self) -> list[float]:
        """When each part ended, in Unix seconds."""
        record = self._record
        marks = {entry.phase: entry.at_ns / 1e9 for entry in record.timeline}
        windows = record.windows
        started = marks["worker started"]
        workers = [each for each in self._pods if each.label("role") == "worker"]
        last_end = windows[-1].start_ns / 1e9 + windows[-1].wall_ns / 1e9
        recording = {place.pod for place in record.topology if place.rank == 0}
        launchers = {each.name for each in self._pods if each.label("role") == "launcher"}
        return [
            self.job_created,
            _last(_first_of_each(workers, lambda body: True)),
            _last(_first_of_each(workers, lambda body: bool(body["spec"].get("nodeName")))),
            _last(_first_of_each(workers, _runs)),
            started,
            marks.get("first step", started),
            windows[0].start_ns / 1e9,
            last_end,
            _last(_first_of_each([each for each in self._pods if each.name in (launchers or recording)], _ended)),
            next(each.at for each in self._jobs if _job_ended(each.body)),
            next(each.at for each in self._trials if (each.body.get("status") or {}).get("phase") == "Succeeded"),
        ]


def summary(rows: Sequence[Row]) -> Row:
    """Medians of each part over the trials, and the operator's own share: median and worst."""
    own = [sum(row[part] for part in OWN) for row in rows]
    between = [sum(row[part] for part in PARTS if part not in ("warm-up", "measure")) for row in rows]
    return {
        "trials": len(rows),
        "median": {part: round(statistics.median(row[part] for row in rows), 3) for part in PARTS},
        "operatorMedian": round(statistics.median(own), 3),
        "operatorWorst": round(max(own), 3),
        "toFirstMeasuredStep": round(statistics.median(sum(row[part] for part in PARTS[:7]) for row in rows), 3),
        "besideSteps": round(statistics.median(between), 3),
    }


def table(rows: Sequence[Row]) -> str:
    """For people."""
    lines = [" ".join([f"{'layout':>6}", *(f"{part:>8}" for part in PARTS)])]
    lines += [" ".join([f"{row['layout']:>6}", *(f"{row[part]:8.2f}" for part in PARTS)]) for row in rows]
    median = summary(rows)["median"]
    return "\n".join([*lines, " ".join([f"{'median':>6}", *(f"{median[part]:8.2f}" for part in PARTS)])])


def _first_of_each(moments: Iterable[Moment], met: Any) -> list[float]:
    """When each object first met a condition."""
    first: dict[str, float] = {}
    for each in moments:
        if each.name not in first and met(each.body):
            first[each.name] = each.at
    return list(first.values())


def _last(times: list[float]) -> float:
    return max(times)


def _states(body: Row) -> list[Row]:
    return [each.get("state") or {} for each in (body.get("status") or {}).get("containerStatuses") or []]


def _runs(body: Row) -> bool:
    return bool(_states(body)) and all("running" in state or "terminated" in state for state in _states(body))


def _ended(body: Row) -> bool:
    return bool(_states(body)) and all("terminated" in state for state in _states(body))


def _job_ended(body: Row) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or []
    return any(
        each["type"] in ("Complete", "SuccessCriteriaMet", "Succeeded") and each["status"] == "True"
        for each in conditions
    )


def main(experiment: Path, into: Path) -> int:
    """As `cluster-quickstart` measured it; 0 when every trial succeeded."""
    name = yaml.safe_load(experiment.read_text())["metadata"]["name"]
    where, command = ["-n", "bench"], Path(sys.executable).with_name("scalecurve")
    stages = Stages()
    with ExistingCluster() as cluster, Moments(cluster.rest) as moments:
        time.sleep(1)  # until the watches are there
        with stages("experiment"):
            applied_at = time.time()
            cluster.kubectl("apply", *where, "-f", str(experiment))
            ended = subprocess.run([command, "watch", name, *where], check=False).returncode
    with stages("report"):
        subprocess.run([command, "report", name, *where, "--into", into], check=True)
    rows = breakdown(moments, "bench", name, into, applied_at)
    print(stages.table(), table(rows), sep="\n")
    (into / "cluster.json").write_text(json.dumps({"trials": rows, "summary": summary(rows)}, indent=1))
    return ended


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
