"""Unwanted differences between points of the same curve: software, device, clocks, placement, environment.

The curve is still drawn; the differences are listed with it, since they may cause a bend that scale does not.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scalecurve.bundle.trial import Trial
from scalecurve_api.record.ledger import Entry
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.text import count, few

CLOCK_TOLERANCE = 0.02
MOST_SPELLED = 4
_DIFFER_BY_NATURE = frozenset(
    {"RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"}
    | {"ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "TF_CONFIG", "HOSTNAME"}
    | {"OMPI_MCA_num_procs", "OMPI_MCA_initial_wdir"}
)
_NATURAL_PREFIXES = (
    *("SCALECURVE_", "TORCHELASTIC_", "OMPI_COMM_WORLD_", "PMI_", "PMIX_"),
    *("HOROVOD_RANK", "HOROVOD_SIZE"),
)
_OWN_SETTINGS = frozenset({"trainedParameters", "replicasPerProcess"})
"""Of a trial, or of its worker count, by nature: the file that it writes, and a process that drives all its workers."""
_THREADS = "threads"
_SETTING = "setting "
_MAY_BE_ABSENT = ("variable ", "version of ")


@dataclass(frozen=True)
class Difference:
    """``values``: each value with the worker counts where it occurred (ascending)."""

    bundle: str
    series: str
    what: str
    values: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def is_within_points(self) -> bool:
        """Whether repetitions of one point differ in it, too."""
        counts = [workers for _, there in self.values for workers in there]
        return len(counts) > len(set(counts))

    def spelled(self) -> str:
        """``2.14.1 at 1, 2 workers; 2.13.0 at 4 workers``."""
        return "; ".join(
            f"{value} at {', '.join(map(str, counts))}" if counts else value for value, counts in self.values
        )


def differences_in(label: str, trials: Iterable[Trial]) -> tuple[Difference, ...]:
    """Every difference within a curve, over the Succeeded trials of the bundle with this label."""
    by_series: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.good:
            by_series.setdefault(trial.spec.point.series, []).append(trial)
    return tuple(
        difference for name, there in by_series.items() for difference in _series_differences(label, name, there)
    )


def growth_differences(label: str, trials: Sequence[Trial], grown: Sequence[Entry]) -> Iterator[Difference]:
    """Points that were added to a finished curve: what differs between two times is in it as well."""
    if not grown:
        return
    by_series: dict[str, set[int]] = {}
    for trial in trials if grown else ():
        if trial.good:
            by_series.setdefault(trial.spec.point.series, set()).add(trial.spec.point.workers)
    for series, counts in by_series.items():
        values = [("first run", tuple(sorted(counts & {*(grown[0].workers or [])})))]
        for entry, later in zip(grown, [*grown[1:], None], strict=True):
            until = counts if later is None else counts & {*(later.workers or [])}
            added = until - {*(entry.workers or [])}
            values.append((f"added {entry.at[:16].replace('T', ' ')} UTC", tuple(sorted(added))))
        if len(kept := tuple(value for value in values if value[1])) > 1:
            yield Difference(label, series, "time of the run", kept)


def describe_differences(differences: Iterable[Difference]) -> Iterator[str]:
    """A line for each difference, the first of them; what several curves share is one."""
    curves: dict[tuple[str, str], list[str]] = {}
    for difference in differences:
        if difference.what.startswith(_SETTING) and difference.is_within_points:
            continue  # as an identifier that a program gives to each of its runs
        curves.setdefault((difference.what, difference.spelled()), []).append(difference.series)
    for (what, values), series in list(curves.items())[:MOST_SPELLED]:
        yield f"{what} differs between the points of {few(series, 3)}: {values}"
    if more := list(curves)[MOST_SPELLED:]:
        yield f"{count(len(more), 'more difference')}: {few(dict.fromkeys(what for what, _ in more))}"


def _series_differences(bundle: str, series: str, trials: Sequence[Trial]) -> Iterator[Difference]:
    facets: dict[str, dict[str, set[int]]] = {}
    seen_by: dict[str, int] = {}
    for trial in trials:
        assert trial.record is not None
        for what, value in facets_of(trial.record):
            facets.setdefault(what, {}).setdefault(value, set()).add(trial.spec.point.workers)
            seen_by[what] = seen_by.get(what, 0) + 1
    for what in sorted(facets):
        values = facets[what]
        if what.startswith(_MAY_BE_ABSENT) and seen_by[what] < len(trials):
            absent = {t.spec.point.workers for t in trials if t.record and what not in dict(facets_of(t.record))}
            values.setdefault("(unset)", set()).update(absent)
        if len(values) > 1:
            yield Difference(bundle, series, what, _sort_by_workers(values))
    yield from _clocks(bundle, series, trials)
    for session in sorted({trial.spec.session for trial in trials}):  # a further one is meant to be elsewhere
        yield from _machines(bundle, series, [trial for trial in trials if trial.spec.session == session])


def facets_of(record: TrialRecord) -> Iterator[tuple[str, str]]:
    """What should be the same in every trial of a curve, and its value in this one."""
    for name, version in record.versions.items():
        yield f"version of {name}", version
    for name, value in record.environment.items():
        if name not in _DIFFER_BY_NATURE and not name.startswith(_NATURAL_PREFIXES):
            yield f"variable {name}", value
    for name, setting in record.options.items():
        if name == _THREADS and (replicas := _replicas(record)) > 1:
            # Those of one process that drives all workers of its node: as many for each of them.
            setting = setting // replicas if isinstance(setting, int) else setting
        if "batch" not in name.lower() and name not in _OWN_SETTINGS:
            yield f"{_SETTING}{name}", setting if isinstance(setting, str) else json.dumps(setting, sort_keys=True)
    yield "device", _join_distinct(rank.device_name for rank in record.topology)
    yield "threads per worker", _join_distinct(str(rank.threads) for rank in record.topology)
    yield "cores per worker", _join_distinct(str(len(rank.cores)) for rank in record.topology)
    yield "engine", record.engine
    yield "nodes", str(record.trial.point.nodes)
    if record.trial.point.workers > 1 and record.backend is not None:
        yield "collective library", record.backend
    yield from _transports(record)
    if record.strategy is not None:
        yield "strategy", record.strategy
    if record.parameters is not None:
        yield "parameters", str(record.parameters)
    if any(samples is not None for samples in record.device_samples):
        yield "power cap", "reached" if any(s.power_capped for s in record.device_samples if s) else "not reached"


def _transports(record: TrialRecord) -> Iterator[tuple[str, str]]:
    """What carried collectives inside machines, and between them: a curve that grows onto more machines has both."""
    hosts = {str(place.rank): place.node or place.host for place in record.topology}
    ways: dict[bool, set[str]] = {}
    for place, seen in zip(record.topology, record.transports, strict=False):
        for peer, used in seen.peers.items() if seen is not None else ():
            ways.setdefault(hosts.get(peer) == hosts[str(place.rank)], set()).update(used.split(", "))
    for within, carriers in ways.items():
        yield f"transport {'within' if within else 'between'} machines", _join_distinct(carriers)


def _replicas(record: TrialRecord) -> int:
    """Workers that one process drives."""
    replicas = record.options.get("replicasPerProcess")
    return replicas if isinstance(replicas, int) else 1


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
        yield Difference(
            bundle, series, "machines", _sort_by_workers({", ".join(sorted(k)): v for k, v in sets.items()})
        )


def _join_distinct(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))


def _sort_by_workers(values: dict[str, set[int]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    pairs = [(value, tuple(sorted(counts))) for value, counts in values.items()]
    return tuple(sorted(pairs, key=lambda pair: (pair[1], pair[0])))
