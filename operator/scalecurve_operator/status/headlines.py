"""How far each series scales so far, for a status: the numbers with their uncertainty are the report's business."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from scalecurve_api.crds.status import one_line
from scalecurve_api.planning.plan import Plan, baseline_of
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_kube.client import Object


def headlines(spec: ExperimentSpec, plan: Plan, throughputs: Mapping[int, float]) -> list[Object]:
    """One entry a series that has a measured point, at its largest worker count, best efficiency first.

    ``throughputs`` is in samples a second, by place in the plan. Repetitions are joined by their geometric mean, as
    the report does; an entry without its baseline has a throughput only.
    """
    measured: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    modes: dict[str, str] = {}
    for index, throughput in throughputs.items():
        point = plan.trials.point(index)
        measured[point.series][point.workers].append(throughput)
        modes[point.series] = point.mode.value
    asked: dict[str, set[int]] = defaultdict(set)
    for point in plan.points:
        asked[point.series].add(point.workers)
    found = [
        (efficiency, entry)
        for series, by_workers in measured.items()
        for efficiency, entry in [
            _headline(series, modes[series], by_workers, baseline_of(spec, sorted(asked[series])))
        ]
    ]
    return [entry for _, entry in sorted(found, key=lambda pair: (-pair[0], pair[1]["series"]))]


def best_efficiency(entries: list[Object]) -> str | None:
    """Of the best series, with its worker count."""
    for entry in entries:
        if "efficiency" in entry:
            return one_line(f"{entry['efficiency']} at {entry['workers']}", 64)
    return None


def _headline(series: str, mode: str, by_workers: Mapping[int, list[float]], baseline: int) -> tuple[float, Object]:
    workers = max(by_workers)
    throughput = _mean(by_workers[workers])
    entry: Object = {
        "series": one_line(series, 128),
        "mode": mode,
        "workers": workers,
        "throughput": one_line(f"{throughput:,.1f}/s", 64),
    }
    alone = _mean(by_workers[baseline]) if baseline in by_workers else 0.0
    if not alone or workers == baseline:
        return -1.0, entry
    speed_up = throughput / alone
    efficiency = speed_up * baseline / workers
    spelled = {"speedUp": f"{speed_up:.2f}", "efficiency": f"{efficiency:.1%}"}
    return efficiency, entry | {name: one_line(text, 64) for name, text in spelled.items()}


def _mean(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values)) if all(v > 0 for v in values) else 0.0
