"""Unwanted differences between points of the same curve: software, device, clocks, placement, environment.

The curve is still drawn; the differences are listed with it, since they may cause a bend that scale does not.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scalecurve.bundle.open import Bundle, Trial
from scalecurve.render.table import Column, Table
from scalecurve_api.record.trial_record import TrialRecord

CLOCK_TOLERANCE = 0.02
_DIFFER_BY_NATURE = frozenset(
    {"RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"}
    | {"ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "TF_CONFIG", "HOSTNAME"}
    | {"OMPI_MCA_num_procs", "OMPI_MCA_initial_wdir"}
)
_NATURAL_PREFIXES = (
    "SCALECURVE_",
    "TORCHELASTIC_",
    "OMPI_COMM_WORLD_",
    "PMI_",
    "PMIX_",
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
)


@dataclass(frozen=True)
class Difference:
    """``values``: each value with the worker counts where it occurred (ascending)."""

    bundle: str
    series: str
    what: str
    values: tuple[tuple[str, tuple[int, ...]], ...]

    def spelled(self) -> str:
        """``2.14.1 at 1, 2 workers; 2.13.0 at 4 workers``."""
        return "; ".join(
            f"{value} at {', '.join(map(str, counts))}" if counts else value for value, counts in self.values
        )


def differences(bundles: Sequence[Bundle]) -> tuple[Difference, ...]:
    """Every difference within a curve, over its Succeeded trials."""
    results: list[Difference] = []
    for bundle in bundles:
        by_series: dict[str, list[Trial]] = {}
        for trial in bundle.trials:
            if trial.good:
                by_series.setdefault(trial.spec.point.series, []).append(trial)
        for name, trials in by_series.items():
            results += _within(bundle.label, name, trials)
    return tuple(results)


def differences_between(before: Bundle, after: Bundle) -> tuple[Difference, ...]:
    """Differences between two bundles, with the bundles' labels in place of series."""
    sides = [(bundle.label, _values(bundle)) for bundle in (before, after)]
    results = []
    for what in sorted(set(sides[0][1]) | set(sides[1][1])):
        spelled = [(label, ", ".join(sorted(values.get(what, {"(unset)"})))) for label, values in sides]
        if spelled[0][1] != spelled[1][1]:
            values = tuple((f"{label}: {value}", ()) for label, value in spelled)
            results.append(Difference(before.label, "", what, values))
    return tuple(results)


def difference_table(differences: Sequence[Difference]) -> Table:
    """One row per difference."""
    several = len({difference.bundle for difference in differences}) > 1
    columns = (
        Column("experiment", "Experiment", detail=not several),
        Column("series", "Series"),
        Column("what", "What differs"),
        Column("values", "Values by worker count"),
    )
    rows = tuple((d.bundle, d.series, d.what, d.spelled()) for d in differences)
    notes = ("A bend in the curve may be due to these differences rather than to scale.",) if rows else ()
    return Table("comparability", "Differences between points of the same curve", columns, rows, notes)


def _within(bundle: str, series: str, trials: Sequence[Trial]) -> Iterator[Difference]:
    facets: dict[str, dict[str, set[int]]] = {}
    seen_by: dict[str, int] = {}
    for trial in trials:
        assert trial.record is not None
        for what, value in _facets(trial.record):
            facets.setdefault(what, {}).setdefault(value, set()).add(trial.spec.point.workers)
            seen_by[what] = seen_by.get(what, 0) + 1
    for what in sorted(facets):
        values = facets[what]
        if what.startswith(_MAY_BE_ABSENT) and seen_by[what] < len(trials):
            absent = {t.spec.point.workers for t in trials if t.record and what not in dict(_facets(t.record))}
            values.setdefault("(unset)", set()).update(absent)
        if len(values) > 1:
            yield Difference(bundle, series, what, _ordered(values))
    yield from _clocks(bundle, series, trials)
    yield from _machines(bundle, series, trials)


_MAY_BE_ABSENT = ("variable ", "version of ")


def _facets(record: TrialRecord) -> Iterator[tuple[str, str]]:
    """Everything that should be constant along a curve."""
    for name, version in record.versions.items():
        yield f"version of {name}", version
    for name, value in record.environment.items():
        if name not in _DIFFER_BY_NATURE and not name.startswith(_NATURAL_PREFIXES):
            yield f"variable {name}", value
    for name, setting in record.options.items():
        if "batch" not in name.lower():
            yield f"setting {name}", setting if isinstance(setting, str) else json.dumps(setting, sort_keys=True)
    yield "device", _joined(rank.device_name for rank in record.topology)
    yield "threads per worker", _joined(str(rank.threads) for rank in record.topology)
    yield "cores per worker", _joined(str(len(rank.cores)) for rank in record.topology)
    yield "engine", record.engine
    yield "nodes", str(record.trial.point.nodes)
    if record.trial.point.workers > 1 and record.backend is not None:
        yield "collective library", record.backend
    if record.strategy is not None:
        yield "strategy", record.strategy
    if record.parameters is not None:
        yield "parameters", str(record.parameters)
    if any(samples is not None for samples in record.device_samples):
        yield "power cap", "reached" if any(s.power_capped for s in record.device_samples if s) else "not reached"


def _values(bundle: Bundle) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for trial in bundle.trials:
        if trial.good and trial.record is not None:
            for what, value in _facets(trial.record):
                values.setdefault(what, set()).add(value)
    return values


def _clocks(bundle: str, series: str, trials: Sequence[Trial]) -> Iterator[Difference]:
    """Mean clocks of the points if they differ by more than ``CLOCK_TOLERANCE``."""
    clocks: dict[int, list[float]] = {}
    for trial in trials:
        for samples in trial.record.device_samples if trial.record else []:
            if samples is not None and samples.sm_mhz_mean:
                clocks.setdefault(trial.spec.point.workers, []).append(samples.sm_mhz_mean)
    means = {workers: sum(values) / len(values) for workers, values in clocks.items()}
    if means and max(means.values()) > min(means.values()) * (1 + CLOCK_TOLERANCE):
        values = tuple((f"{means[workers]:.0f} MHz", (workers,)) for workers in sorted(means))
        yield Difference(bundle, series, "device clock", values)


def _machines(bundle: str, series: str, trials: Sequence[Trial]) -> Iterator[Difference]:
    """Machines of the points, unless every point's machines are among those of the largest one."""
    sets: dict[frozenset[str], set[int]] = {}
    for trial in trials:
        ranks = trial.record.topology if trial.record else []
        # A pod's host name is new in every trial and names no machine.
        names = frozenset(rank.node or rank.host for rank in ranks if rank.node or not rank.pod)
        if names:
            sets.setdefault(names, set()).add(trial.spec.point.workers)
    if sets and not all(names <= max(sets, key=len) for names in sets):
        yield Difference(bundle, series, "machines", _ordered({", ".join(sorted(k)): v for k, v in sets.items()}))


def _joined(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))


def _ordered(values: dict[str, set[int]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    pairs = [(value, tuple(sorted(counts))) for value, counts in values.items()]
    return tuple(sorted(pairs, key=lambda pair: (pair[1], pair[0])))
