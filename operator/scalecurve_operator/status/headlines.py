"""How well each series scales so far, for the status; the report has the uncertainties."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import geometric_mean

from scalecurve_api.crds.status import one_line
from scalecurve_api.planning.plan import Plan, baseline_of
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_kube.resources import Object


def headlines(spec: ExperimentSpec, plan: Plan, throughputs: Mapping[int, float]) -> list[Object]:
    """One entry per measured series, at its largest measured worker count, best efficiency first.

    ``throughputs`` is in samples per second by position in the plan. Repetitions are averaged geometrically, as in the
    report; an entry without its baseline has a throughput only.
    """
    measured: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    modes: dict[str, str] = {}
    for index, throughput in throughputs.items():
        point = plan.trials.point(index)
        measured[point.series][point.workers].append(throughput)
        modes[point.series] = point.mode.value
    planned: dict[str, set[int]] = defaultdict(set)
    for point in plan.points:
        planned[point.series].add(point.workers)
    ranked = [
        _headline(series, modes[series], by_workers, baseline_of(spec, sorted(planned[series])))
        for series, by_workers in measured.items()
    ]
    return [entry for _, entry in sorted(ranked, key=lambda pair: (-pair[0], pair[1]["series"]))]


def best_efficiency(entries: Sequence[Object]) -> str | None:
    """The efficiency of the best series, with its worker count."""
    best = (f"{entry['efficiency']} at {entry['workers']}" for entry in entries if "efficiency" in entry)
    return next((one_line(text, 64) for text in best), None)


def _headline(series: str, mode: str, by_workers: Mapping[int, list[float]], baseline: int) -> tuple[float, Object]:
    workers = max(by_workers)
    throughput = _mean(by_workers[workers])
    entry: Object = {
        "series": one_line(series, 128),
        "mode": mode,
        "workers": workers,
        "throughput": one_line(f"{throughput:,.1f}/s", 64),
    }
    reference = _mean(by_workers[baseline]) if baseline in by_workers else 0.0
    if not reference or workers == baseline:
        return -1.0, entry
    speed_up = throughput / reference
    efficiency = speed_up * baseline / workers
    texts = {"speedUp": f"{speed_up:.2f}", "efficiency": f"{efficiency:.1%}"}
    return efficiency, entry | {name: one_line(text, 64) for name, text in texts.items()}


def _mean(values: list[float]) -> float:
    return geometric_mean(values) if all(value > 0 for value in values) else 0.0
