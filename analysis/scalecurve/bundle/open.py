"""Open bundles, folders or packed files: the plan, and what each trial left behind. Bad files become problems.

Only ``experiment.yaml`` and the trials' ``trial.json`` are read here; ``steps`` reads step tables when they are needed.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar, cast

from scalecurve.bundle.companions import BundleFile, Companions, read_companions
from scalecurve.bundle.consistency import MOST_TABLE_BYTES, Judged, judge_again
from scalecurve.bundle.differences import Difference, describe_differences, differences_in, growth_differences
from scalecurve.bundle.files import BundleFiles, FolderFiles
from scalecurve.bundle.history import Claim, Stored, history, trials_noted
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
from scalecurve.bundle.trial import TRIALS_FOLDER, Trial
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.axes import AxisError
from scalecurve_api.planning.horizon import dropped
from scalecurve_api.planning.plan import MAX_TRIALS, Plan, count_trials, make_plan, sessions_in
from scalecurve_api.programs.old_records import is_planned
from scalecurve_api.record.ledger import Event, Ledger
from scalecurve_api.record.tables import STEPS_FILE
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import Cost, ScalingExperiment
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from scalecurve_api.text import few

CONSISTENCY = "consistency"
_STEPS_UNREAD = (CONSISTENCY, None)

Run = tuple[str, int, int, str, int]
T = TypeVar("T")


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
    claims: tuple[Claim, ...] = ()
    ledger: Ledger | None = None
    companions: Companions = field(default_factory=dict)
    price: Cost | None = None  # in the place of the experiment's, of this bundle alone

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What in the bundle cannot be true, or could not be checked."""
        told = (claim for claim in self.claims if claim.holds is False or (claim.what, claim.holds) == _STEPS_UNREAD)
        return tuple(f"{claim.what}: {claim.detail}" for claim in told)

    @property
    def selected(self) -> bool:
        """Whether its points were chosen from more candidates."""
        return any(file.selects for file in self.companions)

    def companion(self, file: BundleFile[T]) -> T | None:
        """What a feature's file says; None where the bundle has none that can be used."""
        return cast("T | None", self.companions.get(file))

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """What differs between points of the same curve, and should not."""
        grown = self.ledger.of(Event.points) if self.ledger else []
        return (*growth_differences(self.label, self.trials, grown), *differences_in(self.label, self.trials))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before any number: every verb that shows one shows these."""
        return (*self.contradictions, *(f"comparability: {line}" for line in describe_differences(self.differences)))


def open_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Open one bundle.

    Args:
        path: Its folder, or the file that `pack` wrote.

    Returns:
        The bundle; step tables are read when they are needed.

    Raises:
        BundleError: when `path` is neither, or holds neither `experiment.yaml` nor `trials/`.
    """
    root = Path(path)
    files = files_of(root)
    problems: list[UnusableFile] = []
    stored: dict[str, Stored] = {}
    experiment, plan = _read_plan(files, problems)
    name = experiment.metadata.name if experiment else None
    planned = {_run_of(trial): trial for trial in plan.trials} if plan else {}
    recorded: dict[Run, Trial] = {}
    for trial in _read_trials(root, files, name, planned if plan else None, problems, stored):
        if (first := recorded.setdefault(_run_of(trial.spec), trial)) is not trial:
            what = f"a second record of this repetition, after that of {first.name!r}"
            problems.append(UnusableFile(f"{TRIALS_FOLDER}/{trial.name}/{RECORD_FILE}", what))
    results = {
        planned[run].name: trial.record.throughput for run, trial in recorded.items() if trial.record and planned
    }
    full = {planned[run].name for run, trial in recorded.items() if planned and trial.phase is TrialPhase.full}
    needless = dropped(experiment.spec, plan, results, full) if experiment and plan else set()
    elsewhere = bool(recorded) and all(trial.record and trial.record.imported for trial in recorded.values())
    # The plan's spelling of names holds. An import has the points that its source has, and no others to come.
    trials = [
        replace(recorded.pop(run), spec=trial) if run in recorded else Trial(trial, root / TRIALS_FOLDER / trial.name)
        for run, trial in planned.items()
        if run in recorded or (trial.name not in needless and not elsewhere)
    ]
    trials += sorted(recorded.values(), key=lambda trial: trial.name)
    if name is None:
        name = trials[0].spec.experiment if trials else "unnamed"
    ledger, claims = history(files, experiment, stored)
    again, consistency = _judge_consistency(trials, files)
    problems += [_unusable(trial, why) for trial, why in again.unusable]
    companions = read_companions(files, problems)
    told = (*claims, consistency)
    return Bundle(name, root, experiment, plan, again.trials, tuple(sorted(problems)), told, ledger, companions)


def _judge_consistency(trials: Sequence[Trial], files: BundleFiles) -> tuple[Judged, Claim]:
    """The trials as they count, and whether all of them agree with themselves."""
    sizes = (files.size(f"{TRIALS_FOLDER}/{trial.folder.name}/{STEPS_FILE}") for trial in trials if trial.good)
    few_steps = sum(sizes) <= MOST_TABLE_BYTES
    again = judge_again(trials, tables=few_steps)
    detail = few(again.contradictions, 3) or "verdict, windows, summary and timeline of every trial agree"
    if again.contradictions or few_steps:
        return again, Claim(CONSISTENCY, not again.contradictions, detail)
    return again, Claim(CONSISTENCY, None, f"{detail}; steps are held against them by `scalecurve verify`")


def _unusable(trial: Trial, why: str) -> UnusableFile:
    return UnusableFile(f"{TRIALS_FOLDER}/{utf8_name(trial.folder.name)}/{STEPS_FILE}", why)


def open_bundles(paths: Iterable[str | os.PathLike[str]]) -> tuple[Bundle, ...]:
    """Open several bundles.

    Args:
        paths: Their folders, or files that `pack` wrote.

    Returns:
        The bundles in order; experiments with the same name are labeled `name`, `name#2`, and so on.

    Raises:
        BundleError: when a path is no bundle.
    """
    return distinct_labels([open_bundle(path) for path in paths])


def distinct_labels(bundles: Sequence[Bundle]) -> tuple[Bundle, ...]:
    """The same bundles in the same order, with unique labels."""
    counts: Counter[str] = Counter()
    out = []
    for bundle in bundles:
        counts[bundle.label] += 1
        count = counts[bundle.label]
        out.append(bundle if count == 1 else replace(bundle, label=f"{bundle.label}#{count}"))
    return tuple(out)


def files_of(root: Path) -> BundleFiles:
    """Access to the files of the bundle at this path; raises BundleError when there is no bundle at this path."""
    if is_packed(root):
        return PackedFiles(root)
    if not root.is_dir():
        raise BundleError(
            f"{root}: {_why_no_folder(root)}; expected a folder written by `scalecurve run` or a file written by "
            f"`scalecurve pack`{_bundle_around(root)}"
        )
    if not (root / EXPERIMENT_FILE).exists() and not (root / TRIALS_FOLDER).is_dir():
        found = f"neither {EXPERIMENT_FILE} nor {TRIALS_FOLDER}/ found"
        raise BundleError(f"{root}: not a bundle: {found}{_bundle_around(root)}")
    return FolderFiles(root)


def _why_no_folder(path: Path) -> str:
    if not path.exists():
        return "no such file" if path.suffix else "no such folder"
    if path.suffix in (".yaml", ".yml"):
        return "an experiment, and not its records (those of `scalecurve run` are in results/NAME)"
    return "is a file but not a packed bundle"


def _bundle_around(path: Path) -> str:
    """Which folder above the path is a bundle; nothing where none is."""
    above = next((folder for folder in path.parents if (folder / EXPERIMENT_FILE).is_file()), None)
    return f"; did you mean {above}?" if above and (above / TRIALS_FOLDER).is_dir() else ""


def _read_plan(files: BundleFiles, problems: list[UnusableFile]) -> tuple[ScalingExperiment | None, Plan | None]:
    try:
        experiment = parse_experiment(files.read(EXPERIMENT_FILE, MAX_EXPERIMENT_BYTES))
        plan = plan_within_limit(experiment)
        begun = sessions_in([*_trial_folders(files, []), *trials_noted(files)], plan.points)
        sessions = max(begun, experiment.spec.measure.sessions.count)
        return experiment, plan if sessions == 1 else plan_within_limit(experiment, sessions)
    except FileError as error:
        problems.append(UnusableFile(EXPERIMENT_FILE, f"{error}; the plan is unknown, recorded trials are shown"))
        return None, None


def plan_within_limit(experiment: ScalingExperiment, sessions: int = 1) -> Plan:
    """The plan of an experiment that an engine takes; raises FileError for any other."""
    try:
        if count_trials(experiment.spec, limit=MAX_TRIALS) * sessions <= MAX_TRIALS:
            return make_plan(experiment, sessions)
    except AxisError as error:
        raise FileError(str(error)) from error
    raise FileError(f"plans more than {MAX_TRIALS} trials, the limit of every engine")


def _run_of(trial: TrialSpec) -> Run:
    """Which repetition of which point this is. Names are not part of it: their spelling may change."""
    point = trial.point
    return point.mode.value, point.nodes, point.workers_per_node, canonical_json(dict(point.axes)), trial.repetition


def _read_trials(
    root: Path,
    files: BundleFiles,
    experiment: str | None,
    planned: dict[Run, TrialSpec] | None,
    problems: list[UnusableFile],
    stored: dict[str, Stored],
) -> Iterator[Trial]:
    """Trials whose record can be used; everything else under ``trials/`` becomes a problem.

    ``stored`` gets every record that is there, usable or not.
    """
    for name in _trial_folders(files, problems):
        file = f"{TRIALS_FOLDER}/{name}/{RECORD_FILE}"
        try:
            data = files.read(file, MAX_RECORD_BYTES)
            stored[name] = Stored(hashlib.sha256(data).hexdigest())
            record = parse_record(data)
            stored[name] = replace(stored[name], ledger=record.ledger)
            _check_belongs(record, name, experiment, planned)
        except FileError as error:
            problems.append(UnusableFile(utf8_name(file), str(error)))
        else:
            yield Trial(record.trial, root / TRIALS_FOLDER / name, record, files)


def _trial_folders(files: BundleFiles, problems: list[UnusableFile]) -> list[str]:
    try:
        entries = files.entries(TRIALS_FOLDER)
    except FileError as error:
        problems.append(UnusableFile(TRIALS_FOLDER, str(error)))
        return []
    visible = {name: is_folder for name, is_folder in entries.items() if not name.startswith(".")}
    problems += [
        UnusableFile(f"{TRIALS_FOLDER}/{utf8_name(name)}", "not a trial folder: ignored")
        for name, is_folder in visible.items()
        if not is_folder
    ]
    return [name for name, is_folder in visible.items() if is_folder]


def utf8_name(name: str) -> str:
    """Spell a file name in UTF-8; bytes on disk that are not UTF-8 become escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


def _check_belongs(
    record: TrialRecord, folder: str, experiment: str | None, planned: dict[Run, TrialSpec] | None
) -> None:
    """Refuse a record of another experiment or trial, or one that differs from the plan."""
    trial = record.trial
    if experiment is not None and trial.experiment != experiment:
        raise FileError(f"foreign record: experiment {trial.experiment!r}, but this bundle belongs to {experiment!r}")
    if trial.name != folder:
        raise FileError(f"foreign record: trial {trial.name!r} in folder {utf8_name(folder)!r}")
    if planned is None:
        return
    plan = planned.get(_run_of(trial))
    if plan is None:
        raise FileError(f"foreign record: {EXPERIMENT_FILE} plans no trial {trial.name!r}")
    if plan.session != trial.session:
        raise FileError(
            f"foreign record: session {trial.session}, but repetition {trial.repetition} is of session {plan.session}"
        )
    batches = [(each.point.global_batch, each.point.batch_per_worker) for each in (plan, trial)]
    same = is_planned(plan.workload, trial.workload)
    if not same or batches[0] != batches[1]:
        what = "batch" if same else "workload"
        raise FileError(f"foreign record: {what} differs from {EXPERIMENT_FILE}")
    if not record.phase.final:
        raise FileError(f"phase is {record.phase.value}: expected a phase that ends a trial")
