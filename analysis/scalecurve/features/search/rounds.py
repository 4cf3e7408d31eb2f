"""The search for the best candidates of an experiment: rungs of short trials, then full trials of the finalists."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scalecurve.bundle.measurement import MeasuredPoint, measure
from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.features.search.bundle_file import SEARCH_FILE, DroppedPoint, RefusedPoint, SearchRecord, SearchRung
from scalecurve.features.search.halving import Rung, entrants, make_rung_experiment, passed, rungs
from scalecurve.planning.candidates import Candidates, grouped, key_of, without
from scalecurve.planning.plan import seconds_in
from scalecurve.statistics.intervals import throughput
from scalecurve_api.files import atomic_file
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count

Run = Callable[[ScalingExperiment, Path], bool]
"""Runs an experiment into a bundle, and returns whether it came to its end"""


class NothingMeasuredError(Exception):
    """No candidate of a worker count has a valid trial."""


@dataclass
class Search:
    """A search in ``bundle``, which the finalists' trials end in; rungs have bundles in a folder beside it."""

    candidates: Candidates
    bundle: Path
    run: Run
    done: list[SearchRung] = field(default_factory=list)
    short: list[Bundle] = field(default_factory=list)

    def rung_folder(self, rung: Rung) -> Path:
        """Return the path of a rung's bundle."""
        return self.bundle.with_name(f"{self.bundle.name}-search") / f"rung-{rung.number}"

    def rungs(self) -> tuple[Rung, ...]:
        """Return the rungs before the full trials."""
        return rungs(self.candidates.largest_group, self.candidates.experiment.spec.measure)

    def finalists(self) -> list[Point] | None:
        """Run every rung; None where one did not come to its end.

        Raises:
            NothingMeasuredError: a rung leaves nothing of a worker count.
        """
        left = list(self.candidates.points)
        for rung in self.rungs():
            if not (entering := entrants(left)):
                break
            names = {key_of(point) for point in entering}
            others = [point for point in self.candidates.points if key_of(point) not in names]
            experiment = make_rung_experiment(self.candidates.experiment, rung, entering, others)
            if not self.run(experiment, self.rung_folder(rung)):
                return None
            left = self._finish_rung(rung, left, entering)
        return left

    def final(self, finalists: Sequence[Point]) -> ScalingExperiment:
        """Return the experiment with the finalists only."""
        names = {key_of(point) for point in finalists}
        rest = [point for point in self.candidates.points if key_of(point) not in names]
        return without(self.candidates.experiment, rest)

    def record(self) -> SearchRecord:
        """Return what the search did, once the finalists have run, and write it into their bundle."""
        last, spec = open_bundle(self.bundle), self.candidates.experiment.spec
        full = make_plan(self.candidates.experiment)
        timers = [seconds_in(bundle) for bundle in (last, *reversed(self.short))]
        hours, unknown = 0.0, 0
        for trial in full.trials:
            seconds = next((value for timer in timers if (value := timer(trial)) is not None), None)
            hours += (seconds or 0.0) * trial.point.workers / 3600
            unknown += seconds is None
        final = SearchRung(
            number=len(self.done) + 1,
            trials=len(last.trials),
            steps=spec.measure.windows * spec.measure.steps_per_window,
            repetitions=spec.measure.most_repetitions,
            worker_hours=worker_hours(last),
        )
        made = SearchRecord(
            candidates=len(self.candidates.points) + len(self.candidates.refused),
            refused=[
                RefusedPoint(
                    mode=each.point.mode.value,
                    workers=each.point.workers,
                    layout=each.point.axes_in_words,
                    ground=each.ground.value,
                    why=each.why,
                )
                for each in self.candidates.refused
            ],
            rungs=[*self.done, final],
            grid_trials=len(full.trials),
            grid_worker_hours=hours,
            grid_unknown=unknown,
        )
        with atomic_file(self.bundle / SEARCH_FILE) as building:
            building.write((made.model_dump_json(by_alias=True, indent=1) + "\n").encode())
        return made

    def _finish_rung(self, rung: Rung, before: Sequence[Point], entering: Sequence[Point]) -> list[Point]:
        bundle = open_bundle(self.rung_folder(rung))
        self.short.append(bundle)
        measured = {key_of(each.point): each for each in _points(bundle)}
        samples = {key: each.samples for key, each in measured.items() if each.timed}
        dropped, passing = [], set[str]()
        for members in grouped(entering).values():
            stay = passed(members, samples)
            if not stay:
                example = next((t for m in members if (p := measured.get(key_of(m))) for t in p.trials), None)
                why = example.record.message if example is not None and example.record is not None else "none ran"
                raise NothingMeasuredError(
                    f"{self.rung_folder(rung)}: no valid trial of {members[0].mode.value} at "
                    f"{count(members[0].workers, 'worker')}: {why}"
                )
            passing |= {key_of(point) for point in stay}
            best = throughput(samples[key_of(stay[0])]).value
            dropped += [_describe_drop(p, measured.get(key_of(p)), best) for p in members if key_of(p) not in passing]
        self.done.append(
            SearchRung(
                number=rung.number,
                trials=len(bundle.trials),
                steps=rung.windows * rung.steps_per_window,
                repetitions=1,
                worker_hours=worker_hours(bundle),
                dropped=dropped,
            )
        )
        entered = {key_of(point) for point in entering}
        return [point for point in before if key_of(point) not in entered or key_of(point) in passing]


def worker_hours(bundle: Bundle) -> float:
    """Sum the worker-hours of all trials of a bundle, from the first to the last entry of each record's timeline."""
    total = 0.0
    for trial in bundle.trials:
        times = [entry.at_ns for entry in trial.record.timeline] if trial.record is not None else []
        total += (max(times) - min(times)) / 1e9 * trial.spec.point.workers / 3600 if times else 0.0
    return total


def _describe_drop(point: Point, measured: MeasuredPoint | None, best: float) -> DroppedPoint:
    share = throughput(measured.samples).value / best if measured is not None and measured.timed else None
    trial = next(iter(measured.trials), None) if measured is not None else None
    why = trial.record.message if share is None and trial is not None and trial.record is not None else ""
    return DroppedPoint(
        mode=point.mode.value, workers=point.workers, layout=point.axes_in_words, of_best=share, why=why[:500]
    )


def _points(bundle: Bundle) -> Iterator[MeasuredPoint]:
    for series in measure(bundle):
        yield from series.points
