"""Why a curve, or a point of one, is missing: the share of trials, the reason, what ends it, and what to type then."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scalecurve.bundle.open import Bundle
from scalecurve.bundle.trial import Trial
from scalecurve.curves.results import PointResult, ScalingResult
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import FailedReason, InvalidReason, TrialPhase
from scalecurve_api.text import count, listed, plural

REMEDIES: Mapping[str, str] = {
    InvalidReason.wrong_world_size: "check the launcher and its rendezvous: every rank must find the others",
    InvalidReason.wrong_placement: "free the nodes or devices, or state the layout that there is (placement)",
    InvalidReason.no_communication: "initialize torch.distributed, and wrap the model in DDP on CPUs too",
    InvalidReason.same_data: "give each rank its own samples: a DistributedSampler, or another seed",
    InvalidReason.not_trained: "check loss.backward(), optimizer.step() and the learning rate",
    InvalidReason.replicas_diverged: "check that gradients are averaged over all ranks",
    InvalidReason.wrong_backend: "state the collective library that it really uses: workload.backend",
    InvalidReason.wrong_strategy: "state the strategy that it really uses: workload.strategy",
    InvalidReason.wrong_samples: "state the batch that it really uses (scaling.batch), or drop the last, smaller one",
    InvalidReason.wrong_math: "compare with another version of the library, and report what the message names",
    InvalidReason.untimed_work: "move what runs every so many steps into every step, or out of the loop",
    InvalidReason.wrong_clock: "keep the machine awake, and remove what replaces its clock",
    InvalidReason.wrong_rate: "print the rate of all workers since the line before, or take a pattern with step alone",
    InvalidReason.impossible_efficiency: "check the baseline's clocks, and the number of samples in a step",
    InvalidReason.different_parameters: "freeze the same layers at every worker count",
    InvalidReason.different_arithmetic: "use one precision at every worker count",
    InvalidReason.different_flops: "train the same model on the same shapes at every worker count",
    InvalidReason.different_inputs: "train on all samples that are counted, at full length, at every worker count",
    InvalidReason.fewer_passes: "call backward() in every step, at every worker count",
    InvalidReason.different_pauses: "evaluate by the same schedule at every worker count, and train outside of it",
    InvalidReason.reported: "measure it in place of reading what it prints: workload.instrument",
    InvalidReason.frozen_changed: "look for code or a hook that changes frozen layers",
    InvalidReason.oversubscribed: "use a machine with a device or core for each worker, or leave those counts out",
    InvalidReason.non_finite_loss: "lower the learning rate, or use another precision",
    InvalidReason.wrong_transport: "remove what disables the faster transport (NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, "
    "NCCL_IB_DISABLE), and give pods a larger /dev/shm and the RDMA device",
    InvalidReason.throttled: "cool the devices, or raise their power cap",
    InvalidReason.noisy_neighbor: "stop the other processes, or use an idle machine",
    InvalidReason.cpu_steal: "use dedicated cores, another machine, or another time",
    InvalidReason.restarted: "use a runtime that restarts nothing: restartPolicy Never, backoffLimit 0",
    InvalidReason.records_missing: "check that the script calls finish(), and that logs are kept",
    InvalidReason.records_unreadable: "look for other output that begins with scalecurve-record",
    "Contradictory": "take the bundle from its source again, and check it: scalecurve verify",
    FailedReason.start_failed: "correct the command, the image or the volume that the message names",
    FailedReason.rank_failed: "correct what the rank's last words name; its log has more",
    FailedReason.rank_killed: "look for the signal in the rank's log; SIGBUS often is a full /dev/shm",
    FailedReason.out_of_memory: "lower the batch per worker, or raise the memory limit",
    FailedReason.deadline_exceeded: "look for a hung collective in the log, or raise deadlineSeconds",
    FailedReason.bad_workload: "correct the field that the message names",
    FailedReason.unschedulable: "free nodes, or use smaller layouts",
    FailedReason.image_pull: "check the image's name and the registry's credentials",
    FailedReason.quota_exceeded: "raise the quota, or ask for less",
    FailedReason.never_admissible: "ask for what the queue can admit",
    FailedReason.queue_deadline_exceeded: "wait for a free queue, or raise the deadline",
    FailedReason.evicted: "check the node's memory and disk, or allow retries (failurePolicy.retries)",
    FailedReason.job_rejected: "correct what the message of the API server names",
    FailedReason.job_deleted: "leave the job in place until it ends",
}
"""Reason of a verdict -> what ends it."""


@dataclass(frozen=True)
class MissingCurve:
    """``why`` has the share of trials, ``remedy`` what ends the cause if that is known, ``fill`` what is done then.

    ``typed`` says that ``fill`` is a command.
    """

    why: str
    remedy: str
    fill: str
    typed: bool

    def __str__(self) -> str:
        remedy = f" {self.remedy}." if self.remedy else ""
        return f"{self.why}.{remedy} To fill it: {self.fill}"


def missing_curves(bundles: Sequence[Bundle], result: ScalingResult, paths: bool = False) -> tuple[MissingCurve, ...]:
    """One for each bundle that lacks its curve, or points of it; with ``paths``, commands name the bundles' own.

    Otherwise they name the folder that a run writes to by default: the same bundle gives the same lines.
    """
    several = len(bundles) > 1
    every = ((bundle, _find_missing_curve(bundle, result, paths)) for bundle in bundles)
    return tuple(
        replace(one, why=f"{bundle.label}: {one.why}") if several else one for bundle, one in every if one is not None
    )


def nothing_valid(bundle: Bundle) -> str:
    """Why no trial of a bundle counts: the share of trials, and the reason; empty where some do."""
    return "" if any(trial.good for trial in bundle.trials) else _shares(bundle.trials)


def _find_missing_curve(bundle: Bundle, result: ScalingResult, paths: bool) -> MissingCurve | None:
    series = [each for each in result.series if each.bundle == bundle.label]
    absent = [p for each in series for p in each.points if not p.measured and not p.counts.full]
    if not absent or bundle.selected:
        return None
    planned = any(len({p.workers for p in each.points}) > 1 for each in series)
    curves = any(len({p.workers for p in each.measured}) > 1 for each in series)
    if (planned and not curves) or not any(each.measured for each in series):
        what, trials = "No curve" if planned else "Nothing measured", bundle.trials
    else:
        names = {p.point.name for p in absent}
        what = f"No point at {listed(sorted({p.workers for p in absent}), 'worker')}"
        trials = tuple(trial for trial in bundle.trials if trial.spec.point.name in names)
    why = _shares(trials)
    return MissingCurve(f"{what}: {why}", _remedy(trials), *_fill(bundle, absent, paths)) if why else None


def _shares(trials: Sequence[Trial]) -> str:
    """``7 of 12 trials are Invalid, 6 of them NoisyNeighbor (...)``."""
    parts = []
    for phase in (TrialPhase.invalid, TrialPhase.failed, TrialPhase.cancelled):
        ended = [trial.record for trial in trials if trial.record and trial.phase is phase]
        if ended:
            share = f"{len(ended)} of {count(len(trials), 'trial')} {plural(len(ended), 'is', 'are')} {phase.value}"
            parts.append(f"{share}{_most_frequent(ended)}")
    if unfinished := sum(trial.record is None for trial in trials):
        parts.append(f"{unfinished} of {count(len(trials), 'trial')} {plural(unfinished, 'has', 'have')} not finished")
    return "; ".join(parts)


def _most_frequent(records: Sequence[TrialRecord]) -> str:
    reasons = Counter(record.reason for record in records if record.reason)
    if not reasons:
        return ""
    (reason, times), *_ = reasons.most_common(1)
    (said, _), *_ = Counter(record.message for record in records if record.reason == reason).most_common(1)
    share = "" if times == len(records) else f", {times} of them"
    return f"{share or ':'} {reason}{f' ({said})' if said else ''}"


def _remedy(trials: Sequence[Trial]) -> str:
    ended = [trial.record.reason for trial in trials if trial.record and not trial.good]
    reasons = Counter(reason for reason in ended if reason)
    remedy = next((REMEDIES[reason] for reason, _ in reasons.most_common() if reason in REMEDIES), "")
    return remedy[:1].upper() + remedy[1:]


def _fill(bundle: Bundle, absent: Sequence[PointResult], paths: bool) -> tuple[str, bool]:
    """What is done, by where the trials ran and by whether any is still to run, and whether it is a command."""
    engines = {trial.record.engine for trial in bundle.trials if trial.record}
    if "import" in engines:
        return "import what was measured there (scalecurve import)", False
    if "kubernetes" in engines:
        return "apply the experiment again under another metadata.name, and report both bundles", False
    folder, before = f"results/{bundle.experiment.metadata.name if bundle.experiment else bundle.label}", ""
    if paths and bundle.path.is_file():
        folder = str(bundle.path.with_suffix(""))
        before = f"{shlex.join(['scalecurve', 'unpack', str(bundle.path)])} && "
    elif paths:
        folder = str(bundle.path)
    how = "--resume" if any(p.counts.unfinished for p in absent) else "--add-session"
    return before + shlex.join(["scalecurve", "run", f"{folder}/experiment.yaml", "--bundle", folder, how]), True
