"""Checks that a run was one training job: its ranks communicated, read different data, and trained.

Built-in programs are that by construction, for their loops are ours. Any other program must be observed at it: what
its ranks saw is ``RankRecord.proof``. What could not be observed leaves the trial unproved. One worker has nothing of
this to show, but its windows must have held all of the work, too.
"""

from collections import defaultdict
from collections.abc import Sequence

from scalecurve_api.programs.custom import CustomWorkload
from scalecurve_api.record.checks.placement import one_process_for_all
from scalecurve_api.record.proof import CommunicationSeen
from scalecurve_api.record.rank import RankRecord, WindowKind
from scalecurve_api.record.trial_record import Check, TrialRecord
from scalecurve_api.spec.trial import InvalidReason, TrialPhase, TrialSpec
from scalecurve_api.text import count as counted
from scalecurve_api.text import few

PROOF = (
    InvalidReason.no_communication,
    InvalidReason.same_data,
    InvalidReason.not_trained,
    InvalidReason.replicas_diverged,
)
MOST_EFFICIENCY = 1.05
"""What caches and clocks may add to the ideal; more is a fault of the measurement."""
MOST_EFFICIENCY_UNCERTAIN = 1.25
"""Of a number that was measured elsewhere and has no interval: a baseline 20 % too slow is noise at most"""
MOST_PRINTED = 2**0.5
"""Of a printed rate, over what its lines allow, and its inverse: halfway from counted once to counted twice"""
LEAST_SHARE = 1e-3
"""Of the model's bytes in a step: the strongest compression of gradients in use sends about as much."""
LEAST_BITS = 1
"""Of each element of a gradient in an update, unless a communication hook of DDP compresses: its sign, at the least"""
_ELEMENT_BYTES = 4


def drives_all(trial: TrialSpec) -> bool:
    """Whether one process of a command of one's own is every worker."""
    return isinstance(trial.workload, CustomWorkload) and trial.workload.single_process


def least_bytes(elements: int) -> float:
    """What gradients of a model with so many elements take in a step, at the least."""
    return LEAST_SHARE * elements * _ELEMENT_BYTES


def unproved(record: TrialRecord) -> tuple[InvalidReason, ...]:
    """What a Succeeded trial did not show; none for built-in programs, or of an imported trial.

    Of one that reported its times itself nothing was observed, whatever it showed.
    """
    return () if record.imported else not_shown(record.trial, record.phase, record.checks)


def not_shown(trial: TrialSpec, phase: TrialPhase, checks: Sequence[Check]) -> tuple[InvalidReason, ...]:
    """The same of a verdict."""
    if phase is TrialPhase.succeeded and trial.workload.reported:
        return (InvalidReason.reported,)
    if phase is not TrialPhase.succeeded or trial.workload.built_in:
        return ()
    passed = {check.name: check.passed for check in checks}
    untimed = InvalidReason.untimed_work
    open_questions = (untimed,) if passed.get(untimed.value, True) is None else ()
    if trial.point.workers == 1:
        return open_questions
    return (*(reason for reason in PROOF if passed.get(reason.value) is None), *open_questions)


def impossible_efficiency(low: float) -> str | None:
    """Why an efficiency cannot be, by the lower end of its interval; None where it can."""
    if low <= MOST_EFFICIENCY:
        return None
    return (
        f"{InvalidReason.impossible_efficiency.value}: efficiency is at least {low:.1%}, and nothing but a wrong count "
        f"of samples, a wrong clock or a slow baseline explains more than {MOST_EFFICIENCY:.0%}"
    )


def communication(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """Every rank exchanged data with the others during steps, and enough of it to be gradients."""
    name = InvalidReason.no_communication.value
    if by_construction := _prove_by_construction(trial, name):
        return by_construction
    if drives_all(trial):
        return _replicas(trial.point.workers, ranks[0])
    observed = {record.topology.rank: record.proof.communication for record in ranks if record.proof}
    counts = [count for count in observed.values() if count is not None]
    if (every := trial.workload.exchange_every) is not None:
        return _now_and_then(every, ranks)
    silent = [rank for rank, count in observed.items() if count is not None and not count.calls]
    idle = [rank for rank, count in observed.items() if count is not None and count.timed_calls == 0]
    rare = exchange_now_and_then(ranks)
    regular = any(count.period for count in counts)
    if rare and (silent or (idle and regular)):
        return Check(name=name, passed=False, detail=rare)
    if silent:
        steps = max(count.steps for count in counts)
        detail = f"rank {few(silent)} took part in no collective or message in {steps} observed steps"
        if hint := one_process_for_all(ranks):
            return Check(name=name, passed=False, detail=f"{detail}: {hint}")
        detail += ": initialize torch.distributed, and wrap the model in DistributedDataParallel or FSDP"
        detail += " (Lightning: Trainer(devices=int(os.environ['LOCAL_WORLD_SIZE'])))"
        return Check(name=name, passed=False, detail=detail)
    if len(counts) < len(ranks):
        detail = (
            f"no communication was observed at {counted(trial.point.workers, 'worker')}: {_explain_unobserved(ranks)}"
        )
        return Check(name=name, passed=None, detail=detail)
    if idle:
        detail = f"rank {few(idle)} took part in no collective in the timed windows, and did while it was observed"
        return Check(name=name, passed=False, detail=detail)
    if fewer := next(filter(None, map(_fewer_calls, ranks)), None):
        return Check(name=name, passed=False, detail=fewer)
    if partial := next(filter(None, map(_part_of_gradients, counts)), None):
        return Check(name=name, passed=None, detail=partial)
    each, model = min(seen.bytes / max(1, seen.steps) for seen in counts), ranks[0].parameters or 0
    if each < least_bytes(model) and any(seen.least_bytes is None for seen in counts):
        detail = f"{each:,.0f} bytes a step is too little for gradients of a model of {model * _ELEMENT_BYTES:,} bytes"
        return Check(name=name, passed=None, detail=detail)
    return Check(name=name, passed=True, detail=f"{_kinds(counts)}, at least {each:,.0f} bytes a step on every rank")


def _replicas(workers: int, process: RankRecord) -> Check:
    """Every GPU of the one process ran the model; copies between them are no collectives."""
    name = InvalidReason.no_communication.value
    seen = process.proof.communication if process.proof else None
    if seen is None:
        detail = "no nn.DataParallel was seen: which GPUs of the process train is not known"
        return Check(name=name, passed=None, detail=detail)
    if not seen.calls:
        detail = f"not every one of {counted(workers, 'GPU')} ran the model in {counted(seen.steps, 'observed step')}: "
        detail += "call the model through nn.DataParallel, with all GPUs as its device_ids and a sample for each"
        return Check(name=name, passed=False, detail=detail)
    detail = (
        f"every GPU ran the model, at least {counted(seen.calls, 'time')} in {counted(seen.steps, 'observed step')}"
    )
    return Check(name=name, passed=True, detail=detail)


def _part_of_gradients(exchanged: CommunicationSeen) -> str | None:
    """What says that less was exchanged than all gradients of the observed updates take."""
    if exchanged.least_bytes is None or exchanged.bytes >= exchanged.least_bytes:
        return None
    return (
        f"{exchanged.bytes:,} bytes in {counted(exchanged.steps, 'observed step')}, and gradients of their updates "
        f"take {exchanged.least_bytes:,} at the least: average all of them; what compresses further is seen where it "
        "is a communication hook of DistributedDataParallel"
    )


def exchange_now_and_then(ranks: Sequence[RankRecord]) -> str | None:
    """What says that ranks exchange after many steps, and how that is measured; None where every step has one."""
    seen = [record.proof.communication for record in ranks if record.proof and record.proof.communication]
    silent = max((count.silent_steps or 0 for count in seen), default=0)
    if not silent:
        return None
    periods = {count.period for count in seen}
    period = periods.pop() if len(periods) == 1 else None
    met = f"and met after {period}" if period else "and met now and then"
    declare = f"workload.syncEvery: {period}" if period else "the steps between as workload.syncEvery"
    return (
        f"ranks exchanged nothing in {counted(silent, 'step')} in a row, {met} (local SGD?): declare "
        f"{declare}, with measure.stepsPerWindow and measure.warmupSteps of a multiple of it"
    )


def _now_and_then(every: int, ranks: Sequence[RankRecord]) -> Check:
    """Ranks that train by themselves met in the timed windows at least once in ``every`` steps."""
    name = InvalidReason.no_communication.value
    for record in ranks:
        seen = record.proof.communication if record.proof else None
        if seen is None or seen.timed_calls is None:
            detail = f"exchanges of rank {record.topology.rank} in the timed windows could not be counted"
            return Check(name=name, passed=None, detail=detail)
        steps = sum(window.steps for window in record.windows if window.kind is WindowKind.train)
        if seen.timed_calls < steps // every:
            detail = f"rank {record.topology.rank} took part in {counted(seen.timed_calls, 'collective')} in "
            detail += f"{counted(steps, 'timed step')}: fewer than one in every {every} (workload.syncEvery)"
            return Check(name=name, passed=False, detail=detail)
    return Check(name=name, passed=True, detail=f"at least one collective in every {every} timed steps on every rank")


def _fewer_calls(record: RankRecord) -> str | None:
    """What says that a rank communicated less in the timed steps than in any step while it was observed."""
    seen = record.proof.communication if record.proof else None
    if seen is None or seen.timed_calls is None or not seen.least_calls:
        return None
    steps = sum(window.steps for window in record.windows if window.kind is WindowKind.train)
    if seen.timed_calls >= seen.least_calls * steps:
        return None
    return (
        f"rank {record.topology.rank} took part in {counted(seen.timed_calls, 'collective')} in "
        f"{counted(steps, 'timed step')}, and in at least {seen.least_calls} in every step while it was observed"
    )


def data(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """No two ranks read the same samples, unless the experiment declares it."""
    name = InvalidReason.same_data.value
    if by_construction := _prove_by_construction(trial, name):
        return by_construction
    if drives_all(trial):
        return Check(name=name, passed=True, detail="one process reads each batch, and splits it over its GPUs")
    observed = {record.topology.rank: record.proof.data for record in ranks if record.proof and record.proof.data}
    if observed and all(seen.declared_same for seen in observed.values()):
        return Check(name=name, passed=True, detail="workload.sameData: ranks may read the same data")
    readers = defaultdict(list)
    for rank, seen in observed.items():
        readers[seen.digest].append(rank)
    same = [same for same in readers.values() if len(same) > 1]
    if same:
        samples = counted(observed[same[0][0]].samples, "sample")
        detail = f"ranks {few(same[0])} read the same {samples}: no sampler splits them"
        detail += (
            "; use a DistributedSampler, or for an IterableDataset itertools.islice(samples, rank, None, world_size)"
        )
        detail += " in its __iter__; or declare it as intended with workload.sameData: true"
        return Check(name=name, passed=False, detail=detail)
    methods = sorted({seen.method for seen in observed.values()})
    if len(methods) > 1:
        detail = f"ranks read in different ways ({few(methods)}): on some of them the model read nothing"
        return Check(name=name, passed=None, detail=detail)
    if len(observed) < len(ranks):
        missing = [record.topology.rank for record in ranks if record.topology.rank not in observed]
        detail = f"what rank {few(missing)} read was not observed: pass the model to attach(), or use bench.steps()"
        return Check(name=name, passed=None, detail=detail)
    return Check(name=name, passed=True, detail=f"{counted(len(observed), 'rank')} read different samples")


def training(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """Parameters changed on every rank, by gradients that are not zero."""
    name = InvalidReason.not_trained.value
    same = [
        record.topology.rank
        for record in ranks
        if record.initial_checksum and record.initial_checksum == record.parameter_checksum
    ]
    if same:
        detail = f"no parameter of rank {few(same)} has changed: nothing was trained"
        return Check(name=name, passed=False, detail=detail)
    if by_construction := _prove_by_construction(trial, name):
        return by_construction
    observed = {record.topology.rank: record.proof.training for record in ranks if record.proof}
    still = [rank for rank, seen in observed.items() if seen and seen.initial and seen.initial == seen.final]
    if still:
        detail = f"no parameter of rank {few(still)} changed between attach() and finish()"
        return Check(name=name, passed=False, detail=f"{detail}: optimizer.step() or backward() is missing")
    flat = [rank for rank, seen in observed.items() if seen and seen.gradient_norm_nonzero is False]
    if flat:
        return Check(name=name, passed=False, detail=f"every gradient of rank {few(flat)} was zero or missing")
    shown = [rank for rank, seen in observed.items() if seen and seen.initial and seen.final]
    if len(shown) < len(ranks):
        return Check(name=name, passed=None, detail="no parameters to compare: pass the model to attach()")
    return Check(name=name, passed=True, detail=f"parameters changed on {counted(len(shown), 'rank')}")


def reported() -> Check:
    """Whose times these are, of a program that is measured by what it prints."""
    detail = "times are those that the program printed, and nothing of the run was observed"
    return Check(name=InvalidReason.reported.value, passed=None, detail=detail)


def printed(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check | None:
    """The rate that a program printed is one that its lines' steps and times allow; None where neither is known."""
    rate = next((record.printed_rate for record in ranks if record.printed_rate is not None), None)
    if rate is None:
        return None
    detail = f"the printed rate is {rate:.2g} times what the lines' own times allow"
    if rate > MOST_PRINTED:
        detail = f"the printed rate is {rate:.1f} times what the lines' own times allow: it counts samples twice "
        detail += "(workers, accumulation), or leaves out part of a step (loading, an evaluation at every line)"
    elif rate < 1 / MOST_PRINTED:
        detail += ": it is a mean since the start"
        detail += ", or of one rank only (group throughput_per_worker)" if trial.point.workers > 1 else ""
    passed = 1 / MOST_PRINTED <= rate <= MOST_PRINTED
    return Check(name=InvalidReason.wrong_rate.value, passed=passed, detail=detail)


def _prove_by_construction(trial: TrialSpec, name: str) -> Check | None:
    if not trial.workload.built_in:
        return None
    return Check(name=name, passed=True, detail=f"by construction of program {trial.workload.program}")


def _explain_unobserved(ranks: Sequence[RankRecord]) -> str:
    if any(record.proof is None for record in ranks):
        return "a rank's record has no proof (an older scalecurve_worker, or one of the program's own)"
    return "only torch.distributed and Horovod can be observed"


def _kinds(counts: Sequence[CommunicationSeen]) -> str:
    return few(sorted({kind for count in counts for kind in count.kinds})) or "messages"
