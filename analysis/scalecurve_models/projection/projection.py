"""An experiment's steps at any count: recorded, timed by one measured worker and the links, replayed on two streams."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from scalecurve.bundle.open import Bundle
from scalecurve.render.formatting import percent
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.step_program import StepProgram
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_api.text import count as counted
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.projection.links import WorkerLinks
from scalecurve_models.projection.worker import Balance, MeasuredWorker, balance_of, find_measured_worker

_MODULE = "scalecurve_worker.features.projection"
LIMIT_S = 1800


def record_steps(trials: Sequence[TrialSpec]) -> list[StepProgram | str]:
    """The step of each trial, or why it cannot be recorded.

    Raises FitError where torch is missing, or the process ends without an answer.
    """
    if not trials:
        return []
    if importlib.util.find_spec("torch") is None:
        raise FitError("a projection records the step with torch, which is not installed here: scalecurve[torch]")
    keys = [canonical_json(trial.sent()) for trial in trials]
    different = list(dict.fromkeys(keys))
    # No device takes part: the same step comes out on every machine.
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", _MODULE],
        input="".join(f"{key}\n" for key in different),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=environment,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != len(different):
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise FitError(f"the step could not be recorded: {last[0]}")
    answers = dict(zip(different, map(_answer, lines), strict=True))
    return [answers[key] for key in keys]


def _answer(line: str) -> StepProgram | str:
    try:
        answer = json.loads(line)
        return str(answer["refused"]) if "refused" in answer else StepProgram.model_validate(answer["program"])
    except (ValueError, TypeError, KeyError, ValidationError) as error:
        raise FitError(f"the step could not be recorded: not an answer of {_MODULE}: {error}") from error


@dataclass(frozen=True)
class Replay:
    """Seconds of a step: in all, of its work, of its exchanges, and of these what the work does not hide."""

    step_s: float
    compute_s: float
    exchange_s: float

    @property
    def exposed_s(self) -> float:
        return self.step_s - self.compute_s


def replay(program: StepProgram, work_s: Sequence[float], exchange_s: Sequence[float]) -> Replay:
    """Play a step: exchanges start in order, when their work is done; work starts when what it reads has come."""
    work_ends: list[float] = []
    exchange_ends: list[float] = []
    for index, work in enumerate(program.work):
        start = work_ends[-1] if work_ends else 0.0
        for needed in work.waits:
            _run_exchanges(program, exchange_s, needed + 1, work_ends, exchange_ends)
            start = max(start, exchange_ends[needed])
        work_ends.append(start + work_s[index])
    _run_exchanges(program, exchange_s, len(program.exchanges), work_ends, exchange_ends)
    return Replay(max([0.0, *work_ends, *exchange_ends]), sum(work_s), sum(exchange_s))


def _run_exchanges(
    program: StepProgram, seconds: Sequence[float], until: int, work_ends: Sequence[float], ends: list[float]
) -> None:
    """Extend ``ends`` to the first ``until`` exchanges; the work that these need has been played."""
    for index in range(len(ends), until):
        after = program.exchanges[index].after
        ready = work_ends[after] if after >= 0 else 0.0
        ends.append(max(ends[-1] if ends else 0.0, ready) + seconds[index])


MOST_POINTS = 200
ROUNDING = 1e-6
OVERLAP = "exchanges overlap with computing as the strategy orders them, and slow it down by nothing"


@dataclass(frozen=True)
class Projection:
    """One point: what its step would take, or why that is not said."""

    trial: TrialSpec
    program: StepProgram | None = None
    replayed: Replay | None = None
    throughput: float | None = None
    efficiency: float | None = None
    memory_bytes: float | None = None
    assumptions: tuple[str, ...] = ()
    refused: str = ""


def project(
    experiment: ScalingExperiment, workers: Sequence[int], measured: Sequence[Bundle], links: WorkerLinks
) -> list[Projection]:
    """Every point of the experiment of several workers, at its own counts or at ``workers``.

    Raises FitError where nothing can be recorded at all, or for counts that cannot be.
    """
    trials = _points(experiment, workers)
    out: dict[str, Projection] = {}
    ready: list[tuple[TrialSpec, MeasuredWorker, TrialSpec]] = []
    for trial in trials:
        try:
            _refuse_unknown_node(trial, experiment, measured)
            worker = find_measured_worker(trial, measured)
            worker.step_s(_batch_of(trial))
            ready.append((trial, worker, _alone(trial, worker)))
        except FitError as error:
            out[trial.name] = Projection(trial, refused=str(error))
    programs = record_steps([each for trial, _, alone in ready for each in (trial, alone)])
    for (trial, worker, _), program, reference in zip(ready, programs[::2], programs[1::2], strict=True):
        try:
            out[trial.name] = _project_trial(
                trial, _require_program(program), _require_program(reference), worker, links
            )
        except FitError as error:
            out[trial.name] = Projection(trial, refused=str(error))
    return [out[trial.name] for trial in trials]


def _refuse_unknown_node(trial: TrialSpec, experiment: ScalingExperiment, measured: Sequence[Bundle]) -> None:
    """Raise FitError for more workers on a node than were measured on one, unless the experiment states its size."""
    placement = experiment.spec.placement
    if placement.workers_per_node is not None or placement.layouts:
        return
    most = max((t.spec.point.workers_per_node for bundle in measured for t in bundle.trials if t.good), default=1)
    if trial.point.workers_per_node > most:
        count = trial.point.workers_per_node
        raise FitError(
            f"{counted(count, 'worker')} on one node: {most} were measured on one; set placement.workersPerNode"
        )


def _require_program(program: StepProgram | str) -> StepProgram:
    if isinstance(program, str):
        raise FitError(program)
    return program


def _batch_of(trial: TrialSpec) -> int:
    if trial.point.batch_per_worker is None or trial.point.global_batch is None:
        raise FitError(f"{trial.point.series}: has no batch: program {trial.workload.program} does not train")
    return trial.point.batch_per_worker


def _points(experiment: ScalingExperiment, workers: Sequence[int]) -> list[TrialSpec]:
    if workers and min(workers) < 1:
        raise FitError(f"predict: worker counts must be at least 1, got {min(workers)}")
    if workers and experiment.spec.placement.layouts:
        raise FitError("predict: --workers does not apply to an experiment with placement.layouts")
    if workers:
        scaling = experiment.spec.scaling.model_copy(update={"workers": sorted(set(workers)), "baseline": "auto"})
        spec = experiment.spec.model_copy(update={"scaling": scaling})
        experiment = experiment.model_copy(update={"spec": spec})
    trials: dict[str, TrialSpec] = {}
    for trial in make_plan(experiment).trials:
        if trial.point.workers > 1:
            trials.setdefault(trial.point.name, trial)
    if not trials:
        raise FitError("predict: the experiment has no point of several workers; add --workers")
    if len(trials) > MOST_POINTS:
        raise FitError(f"predict: {counted(len(trials), 'point')} to project; at most {MOST_POINTS} are supported")
    return sorted(trials.values(), key=lambda trial: (trial.point.series, trial.point.workers, trial.point.nodes))


def _alone(trial: TrialSpec, worker: MeasuredWorker) -> TrialSpec:
    """What the measured worker ran, at the batch that is nearest to the trial's."""
    batch = worker.nearest(trial.point.batch_per_worker or 0)
    point = worker.trial.point.model_copy(update={"batch_per_worker": batch, "global_batch": batch})
    return worker.trial.model_copy(update={"point": point})


def _project_trial(
    trial: TrialSpec, program: StepProgram, reference: StepProgram, worker: MeasuredWorker, links: WorkerLinks
) -> Projection:
    batch = _batch_of(trial)
    step_s, how = worker.step_s(batch)
    same_batch = batch == worker.nearest(batch)
    balance = balance_of(worker.device_name, trial.workload.precision.value, reference)
    work_s = _work_seconds(program, reference if same_batch else program, balance, step_s)
    played = replay(program, work_s, [links.seconds(each) for each in program.exchanges])
    items = worker.samples_per_item
    throughput = (trial.point.global_batch or 0) * items / played.step_s
    whole = (trial.point.global_batch or 0) if trial.point.mode is Mode.strong else batch
    alone = worker.seconds.get(whole)
    efficiency = None if alone is None else throughput / trial.point.workers / (whole * items / alone)
    if trial.point.mode is Mode.weak and efficiency is not None and efficiency > 1 + ROUNDING:
        raise FitError(
            f"weak scaling at {percent(efficiency)}: a worker that updates a shard of the parameters has less work "
            "than the measured one, and small steps wait for the host, which no projection has: measure two workers"
        )
    memory, memory_how = _memory(program, reference, worker, batch)
    lines = [how, balance.source, *links.assumptions(program.exchanges), OVERLAP]
    if reference.strategy != program.strategy:
        lines.append(f"measured under {reference.strategy}, so what {program.strategy} adds is by the roofline alone")
    return Projection(trial, program, played, throughput, efficiency, memory, (*lines, memory_how))


def _work_seconds(program: StepProgram, reference: StepProgram, balance: Balance, step_s: float) -> list[float]:
    """Seconds of each piece of work: those of the reference's step, by weight."""
    unit = step_s / balance.total(reference)
    return [balance.weight(work) * unit for work in program.work]


def _memory(program: StepProgram, reference: StepProgram, worker: MeasuredWorker, batch: int) -> tuple[float, str]:
    """The recorded peak, and what the measured worker took beside its own recorded one."""
    measured = worker.peak_bytes.get(batch)
    if measured is None:
        return float(program.memory.peak), "memory: tensors of a step alone, without libraries' workspaces"
    beside = measured - reference.memory.peak
    what = f"memory: tensors of a step, and {beside / 1e9:.2g} GB that the measured worker took beside its own"
    return program.memory.peak + beside, what
