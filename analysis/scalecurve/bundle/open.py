"""Open bundles, folders or packed files: the plan, and what each trial left behind. Bad files become problems.

Only ``experiment.yaml`` and the trials' ``trial.json`` are read here; ``steps`` reads step tables when they are needed.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scalecurve.bundle.files import BundleFiles, FolderFiles
from scalecurve.bundle.packed import PackedFiles, is_packed
from scalecurve.bundle.problem import BundleError, FileError, UnusableFile
from scalecurve.bundle.record_file import (
    EXPERIMENT_FILE,
    MAX_EXPERIMENT_BYTES,
    MAX_RECORD_BYTES,
    RECORD_FILE,
    parse_experiment,
    parse_record,
)
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.axes import AxisError
from scalecurve_api.planning.plan import MAX_TRIALS, Plan, count_trials, make_plan
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import TrialPhase, TrialSpec

TRIALS_FOLDER = "trials"

Run = tuple[str, int, int, str, int]


@dataclass(frozen=True)
class Trial:
    """One planned trial; ``record`` is None until it has ended (and for good when its record cannot be used).

    ``folder`` is where its files are, in a packed bundle below the file's own path; ``read`` reads them in both.
    """

    spec: TrialSpec
    folder: Path
    record: TrialRecord | None = None
    files: BundleFiles | None = None

    def read(self, name: str, limit: int) -> bytes:
        """All bytes of one of its files.

        Raises:
            FileError: when it is missing, larger than ``limit``, damaged or unreadable.
        """
        if self.files is None:
            raise FileError("missing")
        return self.files.read(f"{TRIALS_FOLDER}/{self.folder.name}/{name}", limit)

    @property
    def name(self) -> str:
        """Name of the trial, which is also its folder's."""
        return self.spec.name

    @property
    def phase(self) -> TrialPhase | None:
        return None if self.record is None else self.record.phase

    @property
    def good(self) -> bool:
        return self.phase is TrialPhase.succeeded


@dataclass(frozen=True)
class Bundle:
    """One experiment's records: trials in the order of the plan, and everything that could not be read.

    ``label`` identifies the bundle within a report; it never contains a path. ``experiment`` and ``plan`` are None if
    ``experiment.yaml`` cannot be used: recorded trials are still there, unfinished ones are unknown.
    """

    label: str
    path: Path
    experiment: ScalingExperiment | None
    plan: Plan | None
    trials: tuple[Trial, ...]
    problems: tuple[UnusableFile, ...]


def open_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Load one bundle, from its folder or from the file that ``pack`` wrote.

    Raises:
        BundleError: when ``path`` is neither, or holds neither ``experiment.yaml`` nor ``trials/``.
    """
    root = Path(path)
    files = files_of(root)
    problems: list[UnusableFile] = []
    experiment, plan = _planned(files, problems)
    name = experiment.metadata.name if experiment else None
    planned = {_run_of(trial): trial for trial in plan.trials} if plan else {}
    recorded = {
        _run_of(trial.spec): trial for trial in _recorded(root, files, name, planned if plan else None, problems)
    }
    trials = [_matched(recorded.pop(run, None), trial, root) for run, trial in planned.items()]
    trials += sorted(recorded.values(), key=lambda trial: trial.name)
    if name is None:
        name = trials[0].spec.experiment if trials else "unnamed"
    return Bundle(name, root, experiment, plan, tuple(trials), tuple(sorted(problems)))


def open_bundles(paths: Iterable[str | os.PathLike[str]]) -> tuple[Bundle, ...]:
    """Load several bundles; experiments with the same name become ``name``, ``name#2``, ...

    Raises:
        BundleError: when a path is no bundle.
    """
    return distinct_labels([open_bundle(path) for path in paths])


def distinct_labels(bundles: Sequence[Bundle]) -> tuple[Bundle, ...]:
    """The same bundles in the same order, with unique labels."""
    counts: dict[str, int] = {}
    out = []
    for bundle in bundles:
        count = counts[bundle.label] = counts.get(bundle.label, 0) + 1
        label = bundle.label if count == 1 else f"{bundle.label}#{count}"
        out.append(replace(bundle, label=label))
    return tuple(out)


def files_of(root: Path) -> BundleFiles:
    """Access to the files of the bundle at this path.

    Raises:
        BundleError: when there is no bundle at this path.
    """
    if is_packed(root):
        return PackedFiles(root)
    if not root.is_dir():
        why = "is a file but not a packed bundle" if root.exists() else "no such folder"
        raise BundleError(
            f"{root}: {why}; expected a folder written by `scalecurve run` or a file written by `scalecurve pack`"
        )
    if not (root / EXPERIMENT_FILE).exists() and not (root / TRIALS_FOLDER).is_dir():
        raise BundleError(f"{root}: not a bundle: neither {EXPERIMENT_FILE} nor {TRIALS_FOLDER}/ found")
    return FolderFiles(root)


def _planned(files: BundleFiles, problems: list[UnusableFile]) -> tuple[ScalingExperiment | None, Plan | None]:
    try:
        experiment = parse_experiment(files.read(EXPERIMENT_FILE, MAX_EXPERIMENT_BYTES))
        if count_trials(experiment.spec, limit=MAX_TRIALS) > MAX_TRIALS:
            raise FileError(f"plans more than {MAX_TRIALS} trials, the limit of every engine")
        return experiment, make_plan(experiment)
    except (FileError, AxisError) as error:
        problems.append(UnusableFile(EXPERIMENT_FILE, f"{error}; the plan is unknown, recorded trials are shown"))
        return None, None


def _matched(recorded: Trial | None, planned: TrialSpec, root: Path) -> Trial:
    """A planned trial with its record, if there is one; the plan's spelling of names holds."""
    if recorded is None:
        return Trial(planned, root / TRIALS_FOLDER / planned.name)
    return replace(recorded, spec=planned)


def _run_of(trial: TrialSpec) -> Run:
    """Which repetition of which point this is. Names are not part of it: their spelling may change."""
    point = trial.point
    axes = canonical_json(dict(point.axes))
    return point.mode.value, point.nodes, point.workers_per_node, axes, trial.repetition


def _recorded(
    root: Path,
    files: BundleFiles,
    experiment: str | None,
    planned: dict[Run, TrialSpec] | None,
    problems: list[UnusableFile],
) -> Iterator[Trial]:
    """Trials whose record can be used; everything else under ``trials/`` becomes a problem."""
    for name in _trial_folders(files, problems):
        file = f"{TRIALS_FOLDER}/{name}/{RECORD_FILE}"
        try:
            record = parse_record(files.read(file, MAX_RECORD_BYTES))
            _check_belongs(record, name, experiment, planned)
        except FileError as error:
            problems.append(UnusableFile(printable(file), str(error)))
        else:
            yield Trial(record.trial, root / TRIALS_FOLDER / name, record, files)


def _batch(trial: TrialSpec) -> tuple[int | None, int | None]:
    return trial.point.global_batch, trial.point.batch_per_worker


def _trial_folders(files: BundleFiles, problems: list[UnusableFile]) -> list[str]:
    """Names of trial folders; hidden entries belong to an engine."""
    try:
        entries = files.entries(TRIALS_FOLDER)
    except FileError as error:
        problems.append(UnusableFile(TRIALS_FOLDER, str(error)))
        return []
    visible = {name: is_folder for name, is_folder in entries.items() if not name.startswith(".")}
    problems += [
        UnusableFile(f"{TRIALS_FOLDER}/{printable(name)}", "not a trial folder: ignored")
        for name, is_folder in visible.items()
        if not is_folder
    ]
    return [name for name, is_folder in visible.items() if is_folder]


def printable(name: str) -> str:
    """A file name that can be written as UTF-8, whatever bytes it has on disk."""
    return name.encode("utf-8", "backslashreplace").decode()


def _check_belongs(
    record: TrialRecord, folder: str, experiment: str | None, planned: dict[Run, TrialSpec] | None
) -> None:
    """Refuse a record of another experiment or trial, or one that differs from the plan."""
    trial = record.trial
    if experiment is not None and trial.experiment != experiment:
        raise FileError(f"foreign record: experiment {trial.experiment!r}, but this bundle belongs to {experiment!r}")
    if trial.name != folder:
        raise FileError(f"foreign record: trial {trial.name!r} in folder {printable(folder)!r}")
    if planned is None:
        return
    plan = planned.get(_run_of(trial))
    if plan is None:
        raise FileError(f"foreign record: {EXPERIMENT_FILE} plans no trial {trial.name!r}")
    if plan.workload != trial.workload or _batch(plan) != _batch(trial):
        what = "batch" if plan.workload == trial.workload else "workload"
        raise FileError(f"foreign record: {what} differs from {EXPERIMENT_FILE}")
    if not record.phase.final:
        raise FileError(f"phase is {record.phase.value}: expected a phase that ends a trial")
