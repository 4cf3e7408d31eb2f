"""Open bundles: what was planned, and what each trial left behind. Bad files become problems; the rest still loads.

Only ``experiment.yaml`` and the trials' ``trial.json`` are read here. Step tables are read when asked for (``steps``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalecurve.bundle.problem import BundleError, FileError, Problem
from scalecurve.bundle.record_file import read_experiment, read_record
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.axes import AxisError
from scalecurve_api.planning.plan import MAX_TRIALS, Plan, count_trials, make_plan
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import TrialPhase, TrialSpec

EXPERIMENT_FILE = "experiment.yaml"
TRIALS_FOLDER = "trials"
RECORD_FILE = "trial.json"

Run = tuple[str, int, int, str, int]


@dataclass(frozen=True)
class Trial:
    """One planned trial; ``record`` is None until it has ended (and for good when its record cannot be used)."""

    spec: TrialSpec
    folder: Path
    record: TrialRecord | None = None

    @property
    def name(self) -> str:
        """Name of the trial, which is also its folder's."""
        return self.spec.name

    @property
    def phase(self) -> TrialPhase | None:
        """The final phase, None while there is none."""
        return None if self.record is None else self.record.phase

    @property
    def good(self) -> bool:
        """Whether its numbers may enter a curve."""
        return self.phase is TrialPhase.succeeded


@dataclass(frozen=True)
class Bundle:
    """One experiment's records: trials in the order of the plan, and everything that could not be read.

    ``label`` tells bundles of one report apart; it never contains a path. ``experiment`` and ``plan`` are None where
    ``experiment.yaml`` cannot be used: the trials that were recorded are still there, unfinished ones are unknown.
    """

    label: str
    path: Path
    experiment: ScalingExperiment | None
    plan: Plan | None
    trials: tuple[Trial, ...]
    problems: tuple[Problem, ...]


def open_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Load one bundle.

    Raises:
        BundleError: when ``path`` is not a folder, or holds neither ``experiment.yaml`` nor ``trials/``.
    """
    root = Path(path)
    if not root.is_dir():
        what = "is a file" if root.exists() else "no such folder"
        raise BundleError(f"{root}: {what}; give the folder that `scalecurve run` wrote")
    if not (root / EXPERIMENT_FILE).exists() and not (root / TRIALS_FOLDER).is_dir():
        raise BundleError(f"{root}: not a bundle: it holds neither {EXPERIMENT_FILE} nor {TRIALS_FOLDER}/")
    problems: list[Problem] = []
    experiment, plan = _planned(root, problems)
    name = experiment.metadata.name if experiment else None
    planned = {_run_of(trial): trial for trial in plan.trials} if plan else {}
    found = {_run_of(trial.spec): trial for trial in _recorded(root, name, planned if plan else None, problems)}
    trials = [_matched(found.pop(run, None), trial, root) for run, trial in planned.items()]
    trials += sorted(found.values(), key=lambda trial: trial.name)
    if name is None:
        name = trials[0].spec.experiment if trials else "unnamed"
    return Bundle(name, root, experiment, plan, tuple(trials), tuple(sorted(problems)))


def open_bundles(paths: Iterable[str | os.PathLike[str]]) -> tuple[Bundle, ...]:
    """Load several bundles; experiments of one name are told apart as ``name``, ``name#2``, ...

    Raises:
        BundleError: when a path is no bundle.
    """
    return distinct_labels([open_bundle(path) for path in paths])


def distinct_labels(bundles: Sequence[Bundle]) -> tuple[Bundle, ...]:
    """The same bundles with labels that differ, in the order given."""
    seen: dict[str, int] = {}
    out = []
    for bundle in bundles:
        count = seen[bundle.label] = seen.get(bundle.label, 0) + 1
        label = bundle.label if count == 1 else f"{bundle.label}#{count}"
        out.append(Bundle(label, bundle.path, bundle.experiment, bundle.plan, bundle.trials, bundle.problems))
    return tuple(out)


def _planned(root: Path, problems: list[Problem]) -> tuple[ScalingExperiment | None, Plan | None]:
    try:
        experiment = read_experiment(root / EXPERIMENT_FILE)
        if count_trials(experiment.spec, limit=MAX_TRIALS) > MAX_TRIALS:
            raise FileError(f"plans more than {MAX_TRIALS} trials, which no engine runs")
        return experiment, make_plan(experiment)
    except (FileError, AxisError) as error:
        problems.append(Problem(EXPERIMENT_FILE, f"{error}; what was planned is unknown, recorded trials are shown"))
        return None, None


def _matched(found: Trial | None, planned: TrialSpec, root: Path) -> Trial:
    """A planned trial with its record, if there is one; the plan's spelling of names holds."""
    if found is None:
        return Trial(planned, root / TRIALS_FOLDER / planned.name)
    return Trial(planned, found.folder, found.record)


def _run_of(trial: TrialSpec) -> Run:
    """Which run of which point this is; names are left out, for they are spelled and may be spelled otherwise once."""
    point = trial.point
    axes = canonical_json(dict(point.axes))
    return point.mode.value, point.nodes, point.workers_per_node, axes, trial.repetition


def _recorded(
    root: Path, experiment: str | None, planned: dict[Run, TrialSpec] | None, problems: list[Problem]
) -> Iterator[Trial]:
    """Trials whose record can be used; everything else under ``trials/`` becomes a problem."""
    for folder in _folders(root / TRIALS_FOLDER, problems):
        file = f"{TRIALS_FOLDER}/{printable(folder.name)}/{RECORD_FILE}"
        try:
            record = read_record(folder / RECORD_FILE)
            _check_belongs(record, folder.name, experiment, planned)
        except FileError as error:
            problems.append(Problem(file, str(error)))
        else:
            yield Trial(record.trial, folder, record)


def _batch(trial: TrialSpec) -> tuple[int | None, int | None]:
    return trial.point.global_batch, trial.point.batch_per_worker


def _folders(trials: Path, problems: list[Problem]) -> list[Path]:
    """Folders of trials by name; hidden entries are an engine's business."""
    try:
        entries = sorted(trials.iterdir(), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(Problem(TRIALS_FOLDER, f"cannot be listed: {error.strerror}"))
        return []
    visible = [entry for entry in entries if not entry.name.startswith(".")]
    problems += [
        Problem(f"{TRIALS_FOLDER}/{printable(entry.name)}", "not a trial's folder: ignored")
        for entry in visible
        if not entry.is_dir()
    ]
    return [entry for entry in visible if entry.is_dir()]


def printable(name: str) -> str:
    """A file name that can be written as UTF-8, whatever bytes it has on disk."""
    return name.encode("utf-8", "backslashreplace").decode()


def _check_belongs(
    record: TrialRecord, folder: str, experiment: str | None, planned: dict[Run, TrialSpec] | None
) -> None:
    """Refuse a record of another experiment, of another trial, or of a trial that is planned otherwise."""
    trial = record.trial
    if experiment is not None and trial.experiment != experiment:
        raise FileError(f"foreign: a record of experiment {trial.experiment!r}, this bundle is of {experiment!r}")
    if trial.name != folder:
        raise FileError(f"foreign: the record of trial {trial.name!r} in the folder of {printable(folder)!r}")
    if planned is None:
        return
    plan = planned.get(_run_of(trial))
    if plan is None:
        raise FileError(f"foreign: {EXPERIMENT_FILE} plans no trial {trial.name!r}")
    if plan.workload != trial.workload or _batch(plan) != _batch(trial):
        what = "batch" if plan.workload == trial.workload else "workload"
        raise FileError(f"foreign: ran with another {what} than {EXPERIMENT_FILE} plans")
    if not record.phase.final:
        raise FileError(f"phase is {record.phase.value}: a record is written when a trial has ended")
