"""Checks of how the ranks of a run trained: library, wrapper, parameters, frozen layers and samples."""

from collections import Counter
from collections.abc import Sequence
from math import ceil, floor
from statistics import mean, median, median_low

from scalecurve_api.record.checks.proof import drives_all, exchange_now_and_then
from scalecurve_api.record.checks.registered import find_divergences
from scalecurve_api.record.rank import RankRecord, WindowKind
from scalecurve_api.record.trial_record import Check
from scalecurve_api.spec.trial import InvalidReason, TrialSpec
from scalecurve_api.text import count as counted
from scalecurve_api.text import few

LEAST_FILLED = 0.9
"""Of the planned batch, on average over a window: epochs end with smaller batches"""
MOST_VARIED = 0.5
"""Of the steps that have the most common batch: where these are fewer, it is no exception that others differ"""
UNTIMED_NS = 50_000_000
UNTIMED_SHARE = 0.05
"""Of a window: the first step after a barrier takes a few ms more by itself (docs/evidence/h200)"""
CLOCK_NS, CLOCK_SHARE = 50_000_000, 0.002
"""What two clocks of a kernel may differ by: /proc/uptime has steps of 10 ms, and both are slewed alike"""
WRONG_PEAK = "WrongPeak"
"""It makes no trial Invalid: its times are right, and only shares of the peak are not."""


def backend(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """Carried by the collective library that was requested, or that auto means."""
    name = InvalidReason.wrong_backend.value
    used = sorted({record.backend or "none" for record in ranks})
    if trial.point.workers == 1:
        return Check(name=name, passed=True, detail=f"used {few(used)}")
    carrier = trial.workload.carrier(on_gpu=not ranks[0].topology.device.startswith("cpu"))
    if carrier is None:
        return Check(name=name, passed=None, detail=f"used {few(used)}")
    return Check(name=name, passed=used == [carrier], detail=f"used {few(used)}, expected {carrier}")


def strategy(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """Wrapped by the class that the strategy is made of."""
    name = InvalidReason.wrong_strategy.value
    used = sorted({record.strategy or "none" for record in ranks})
    expected = trial.workload.wrapper()
    if expected is None:
        return Check(name=name, passed=None, detail=f"wrapped by {few(used)}; nothing to compare with")
    passed = used == [expected]
    return Check(name=name, passed=passed, detail=f"wrapped by {few(used)}" + ("" if passed else f", not {expected}"))


def replicas(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """The same parameters on every rank at the end, or shards that make up the model, and changed ones."""
    name = InvalidReason.replicas_diverged.value
    if broken := _shares(trial, ranks) or next(find_divergences(trial, ranks), None):
        return Check(name=name, passed=False, detail=broken)
    if drives_all(trial):
        # Of a command of one's own what is not shown is unproved, and this is.
        return Check(name=name, passed=True, detail="one set of parameters, copied to every GPU in each step")
    if trial.workload.resolved_strategy is not None and (place := trial.workload.resolved_strategy.one_copy):
        return Check(name=name, passed=None, detail=f"one set of parameters, {place}")
    if trial.workload.exchange_every is not None and not trial.workload.built_in:
        return _equal_where_they_met(ranks)
    sums = {record.topology.rank: record.parameter_checksum for record in ranks}
    if any(value is None for value in sums.values()):
        return Check(name=name, passed=None, detail="no parameter checksum: the program passed no model")
    groups = Counter(sums.values())
    if len(groups) > 1:
        common = groups.most_common(1)[0][0]
        apart = [rank for rank, value in sums.items() if value != common]
        detail = f"parameters of rank {few(apart)} differ from the other ranks'"
        seen = [record.proof.communication for record in ranks if record.proof and record.proof.communication]
        silent = any(not count.calls or count.timed_calls == 0 for count in seen)  # NoCommunication says so
        rare = None if silent else exchange_now_and_then(ranks)
        return Check(name=name, passed=False, detail=f"{detail}; {rare}" if rare else detail)
    detail = f"parameters equal on {counted(len(ranks), 'rank')}"
    servers = trial.workload.parameter_servers
    if servers is not None and servers.asynchronous:
        # Between two fetches the ranks' parameters differ, and nothing bounds by how much.
        detail += ", as fetched after the last update; no bound on what they differ by before"
    return Check(name=name, passed=True, detail=detail)


def _equal_where_they_met(ranks: Sequence[RankRecord]) -> Check:
    """The parameters of ranks that train by themselves differ between two exchanges, and not right after one."""
    name = InvalidReason.replicas_diverged.value
    met = [record.proof.training.met if record.proof and record.proof.training else None for record in ranks]
    if None in met:
        detail = "parameters after an exchange were not seen: pass the model to attach()"
        return Check(name=name, passed=None, detail=detail)
    passed = len(set(met)) == 1
    detail = "parameters equal" if passed else "parameters differ"
    return Check(name=name, passed=passed, detail=f"{detail} on {counted(len(ranks), 'rank')} after they met")


def _shares(trial: TrialSpec, ranks: Sequence[RankRecord]) -> str | None:
    """Ranks with shards must together hold every parameter once, or once for every copy of the model."""
    held = [record.shard_elements for record in ranks if record.shard_elements is not None]
    parameters = ranks[0].parameters or 0
    copies = trial.workload.copies(len(ranks))
    if not held or sum(held) == copies * parameters:
        return None
    times = f"{copies} copies of the model have" if copies > 1 else "the model has"
    return f"{sum(held)} elements of parameters in {len(held)} shards, but {times} {copies * parameters}"


def check_frozen_layers(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """Compare the checksums of what ``workload.transfer.train: head`` freezes, over time and over ranks."""
    name = InvalidReason.frozen_changed.value
    if not trial.workload.freezes_layers:
        return Check(name=name, passed=True, detail="no layer was frozen")
    further = (f"after {measurement.called}" for measurement in trial.measure.further)
    moments = ("before training", "after the timed windows", *further)
    first = ranks[0].frozen_checksums
    for record in ranks:
        sums, rank = record.frozen_checksums, record.topology.rank
        if len(sums) != len(moments):
            detail = f"rank {rank} has {len(sums)} checksums of its frozen layers, expected {len(moments)}"
            return Check(name=name, passed=False, detail=detail)
        changed = [moment for moment, checksum in zip(moments, sums, strict=True) if checksum != sums[0]]
        if changed:
            detail = f"the frozen layers of rank {rank} differ {changed[0]} from {moments[0]}"
            return Check(name=name, passed=False, detail=detail)
        if sums != first:
            detail = f"the frozen layers of rank {rank} differ from those of rank {ranks[0].topology.rank}"
            return Check(name=name, passed=False, detail=detail)
    return Check(
        name=name,
        passed=True,
        detail=f"frozen layers bit-equal at {counted(len(moments), 'moment')} on {counted(len(ranks), 'rank')}",
    )


def samples(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """Samples of each window = steps x batch; an item of text counts as its tokens, the same number everywhere."""
    name = InvalidReason.wrong_samples.value
    batch, options, layout = trial.point.batch_per_worker, trial.workload.parameter_servers, trial.point.parallelism
    if layout is not None:
        batch = layout.group_batch
    if trial.workload.words and batch is not None:
        handed = trial.workload.is_handed_batch
        return _check_sample_counts(batch, ranks, layout.group if layout is not None else 1, handed)
    if batch is None or not trial.workload.counts_samples:
        return Check(name=name, passed=None, detail="the program counts its samples itself")
    spared = options.backup_workers if options else 0
    taking = max(1, trial.point.workers - spared)
    if trial.point.parallelism is not None and trial.point.global_batch is not None:
        batch, taking = trial.point.global_batch, 1
    windows, seen = Counter[int](), Counter[int]()
    steps: dict[int, int] = {}
    for record in ranks:
        for window in record.windows:
            windows[window.index] += window.samples
            seen[window.index] += 1
            steps[window.index] = window.steps
    expected = {index: count * batch * taking for index, count in steps.items() if seen[index] == len(ranks)}
    tokens = 1  # in one sample
    if ranks[0].sample_unit == "tokens" and expected:
        first = min(expected)
        tokens = max(1, windows[first] // max(1, expected[first]))
    wrong = [index for index, count in expected.items() if windows[index] != count * tokens]
    if wrong:
        index = wrong[0]
        detail = f"window {index} has {windows[index]} {ranks[0].sample_unit}"
        detail += f", expected {expected[index] * tokens}: {counted(steps[index], 'step')} x {batch}"
        detail += f" x {counted(taking, 'worker')}"
        return Check(name=name, passed=False, detail=detail)
    return Check(name=name, passed=True, detail="steps x batch in every window")


def _check_sample_counts(batch: int, ranks: Sequence[RankRecord], sharing: int, handed: bool) -> Check:
    """Compare what the program counted with the experiment's batch; the last batch of an epoch may be smaller.

    Of ``sharing`` ranks that train the same samples each has counted its part, an integer. ``handed`` is whether the
    command gets its batch from the experiment.
    """
    name = InvalidReason.wrong_samples.value
    for record in ranks:
        for window in record.windows:
            samples = window.samples if record.sample_unit == "samples" else window.sequences
            if samples is None:
                return Check(name=name, passed=None, detail="the program counts tokens, the experiment samples")
            a_step = samples / max(1, window.steps)
            if (
                not (LEAST_FILLED * batch if sharing == 1 else floor(LEAST_FILLED * batch / sharing))
                <= a_step
                <= ceil(batch / sharing)
            ):
                detail = f"rank {record.topology.rank} counted {a_step:,.4g} samples a step in window {window.index}"
                return Check(name=name, passed=False, detail=detail + _instead_of(batch, a_step, record, handed))
    return Check(name=name, passed=True, detail=f"batches of {batch}, as the program counts them")


def _instead_of(batch: int, a_step: float, record: RankRecord, handed: bool) -> str:
    """What a step seems to have in place of the planned batch, and how that is stated."""
    sizes = record.batch_sizes
    if sizes is not None and sizes.most_common < MOST_VARIED:
        varies = f"{sizes.least} to {sizes.most}, mean {sizes.mean:,.4g}"
        return (
            f", but the experiment has batches of {batch} at this point: the batch varies ({varies}), as batches of "
            "so many tokens do; leave scaling.batch (--batch of run --) out, and count tokens: "
            'attach(model, unit="tokens")'
        )
    batches = round(a_step / batch)
    if handed and batches > 1 and a_step == batches * batch:
        return (
            f": {batches * batch} is {batches} batches of {batch}; set scaling.batch (--batch of run --) to the "
            f"samples of a step, {batches * batch}, and hand the script {{batchPerWorker/{batches}}}"
        )
    return (
        f", but the experiment has batches of {batch} at this point: set scaling.batch (--batch of run --) to what the "
        "script uses, or take drop_last=True"
    )


def clock(ranks: Sequence[RankRecord]) -> Check | None:
    """The clock that timed the steps went as the kernel's did; None where no rank knows the kernel's."""
    spans = [(r.topology.rank, r.ended_ns - r.started_ns, r.kernel_ns) for r in ranks if r.kernel_ns is not None]
    if not spans:
        return None
    rank, told_ns, kernel_ns = max(spans, key=lambda span: abs(span[1] - span[2]))
    passed = abs(told_ns - kernel_ns) <= CLOCK_NS + CLOCK_SHARE * kernel_ns
    detail = f"{told_ns / 1e9:.3g} s passed on the clock of rank {rank}, {kernel_ns / 1e9:.3g} s by the kernel"
    why = "" if passed else ": the machine was suspended, or the program's clock was altered"
    return Check(name=InvalidReason.wrong_clock.value, passed=passed, detail=detail + why)


def untimed(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """Nothing is done in the untimed step before each window that the timed ones do without.

    A step that took longer because a rank had no processor is none of that: what the kernel counted is subtracted.
    Work before every window makes the trial Invalid. Where only the mean over the windows exceeds the bound, it may
    have been another delay of the machine: the trial is unproved.
    """
    name = InvalidReason.untimed_work.value
    if trial.workload.built_in:
        return Check(name=name, passed=True, detail=f"by construction of program {trial.workload.program}")
    waited = Counter[int]()  # by window: ranks wait for the slowest
    for record in ranks:
        for window in record.windows:
            waited[window.index] = max(waited[window.index], window.lead_waited_ns or 0)
    once, unexplained = "", ""
    for record in ranks:
        windows = [window for window in record.windows if window.lead_ns is not None]
        if not windows:
            continue
        bound = max(UNTIMED_NS, UNTIMED_SHARE * median(window.wall_ns for window in windows))
        excesses = [
            max(0, (window.lead_ns or 0) - window.wall_ns / max(1, window.steps) - waited[window.index])
            for window in windows
        ]
        rank = record.topology.rank
        if (excess := median_low(excesses)) > bound:
            detail = f"the untimed step before each window took {excess / 1e9:.3g} s more than a timed one on rank "
            detail += f"{rank}: work that every window excludes"
            return Check(name=name, passed=False, detail=detail)
        if (longest := max(excesses)) > bound:
            count = sum(ns > bound for ns in excesses)
            once = f"{count} of {len(windows)} on rank {rank}, by up to {longest / 1e9:.3g} s"
        if mean(excesses) > bound:
            unexplained = f"untimed steps took longer than timed ones before {once}, which CPU starvation does "
            unexplained += "not explain: occasional work, or a stalled machine"
    if unexplained:
        return Check(name=name, passed=None, detail=unexplained)
    paused_ns = max(sum(window.paused_ns or 0 for window in record.windows) for record in ranks)
    without = f"; {paused_ns / 1e9:.3g} s of evaluation between steps is in no window" if paused_ns else ""
    once = f"; except {once}: held up, or rare work" if once else ""
    return Check(name=name, passed=True, detail=f"untimed steps took no more than timed ones{once}{without}")


def finite_loss(ranks: Sequence[RankRecord]) -> Check:
    """No loss that is NaN or infinite."""
    name = InvalidReason.non_finite_loss.value
    bad = [record.topology.rank for record in ranks if record.finite_loss is False]
    if bad:
        return Check(name=name, passed=False, detail=f"loss is NaN or infinite on rank {few(bad)}")
    if all(record.finite_loss is None for record in ranks):
        return Check(name=name, passed=None, detail="the program reported no loss")
    return Check(name=name, passed=True, detail="every loss read is finite")


def peak(ranks: Sequence[RankRecord]) -> Check | None:
    """No more than the devices' peak in use; None where it, or the FLOPs of a sample, are not known."""
    first = ranks[0]
    flops = max(first.flops_per_sample or 0.0, first.hardware_flops_per_sample or 0.0)
    timed = [[window for window in record.windows if window.kind is WindowKind.train] for record in ranks]
    wall_ns = max(sum(window.wall_ns for window in windows) for windows in timed)
    if not flops or not first.peak_flops or not wall_ns:
        return None
    samples = sum(window.samples for windows in timed for window in windows)
    share = samples * flops * 1e9 / (wall_ns * first.peak_flops * len(ranks))
    used = f"{share:.1%} of the peak of {first.peak_flops / 1e12:,.1f} TFLOP/s (dense) of {first.topology.device_name}"
    return Check(name=WRONG_PEAK, passed=share <= 1, detail=used if share <= 1 else f"{used}, which cannot be")
