"""Checks of how the ranks of a run trained: library, wrapper, parameters and samples."""

from collections import Counter
from collections.abc import Sequence

from scalecurve_api.programs.tensorflow import TensorFlowWorkload
from scalecurve_api.programs.torch import ParameterServerOptions, TorchWorkload, Updates
from scalecurve_api.programs.workload import Strategy
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.trial_record import Check
from scalecurve_api.spec.trial import InvalidReason, TrialSpec
from scalecurve_api.text import few


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
    if broken := _untrained(ranks) or _shares(ranks) or _servers(trial, ranks):
        return Check(name=name, passed=False, detail=broken)
    if trial.workload.resolved_strategy is Strategy.dp:
        return Check(name=name, passed=None, detail="one set of parameters, copied to every GPU in each step")
    if isinstance(trial.workload, TensorFlowWorkload) and trial.workload.served:
        return Check(name=name, passed=None, detail="one set of parameters, on the servers")
    sums = {record.topology.rank: record.parameter_checksum for record in ranks}
    if any(value is None for value in sums.values()):
        return Check(name=name, passed=None, detail="no parameter checksum: the program passed no model")
    groups = Counter(sums.values())
    if len(groups) > 1:
        common = groups.most_common(1)[0][0]
        apart = [rank for rank, value in sums.items() if value != common]
        return Check(name=name, passed=False, detail=f"parameters of rank {few(apart)} differ from the other ranks'")
    detail = f"parameters equal on {len(ranks)} ranks"
    servers = _servers_of(trial)
    if servers is not None and servers.updates is Updates.asynchronous:
        # Between two fetches the ranks' parameters differ, and nothing bounds by how much.
        detail += ", as fetched after the last update; no bound on what they differ by before"
    return Check(name=name, passed=True, detail=detail)


def _untrained(ranks: Sequence[RankRecord]) -> str | None:
    same = [r.topology.rank for r in ranks if r.initial_checksum and r.initial_checksum == r.parameter_checksum]
    return f"no parameter of rank {few(same)} has changed: nothing was trained" if same else None


def _shares(ranks: Sequence[RankRecord]) -> str | None:
    """Ranks with shards must together hold every parameter once."""
    held = [record.shard_elements for record in ranks if record.shard_elements is not None]
    if not held or sum(held) == ranks[0].parameters:
        return None
    return f"{sum(held)} elements of parameters in {len(held)} shards, but the model has {ranks[0].parameters}"


def _servers(trial: TrialSpec, ranks: Sequence[RankRecord]) -> str | None:
    """Every gradient that a rank sent must have reached every server, and their shards make up the model."""
    options = _servers_of(trial)
    if options is None:
        return None
    servers = ranks[0].servers
    if len(servers) != options.servers:
        return f"{len(servers)} parameter servers reported counts, expected {options.servers}"
    sent = sum(record.pushes or 0 for record in ranks)
    for server in servers:
        if server.gradients != sent:
            return f"parameter server {server.server} took {server.gradients} gradients, but the workers sent {sent}"
    held = sum(server.parameters for server in servers)
    return None if held == ranks[0].parameters else f"servers hold {held} of {ranks[0].parameters} parameters"


def samples(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """Samples of each window = steps x batch; an item of text counts as its tokens, the same number everywhere."""
    name = InvalidReason.wrong_samples.value
    batch, options = trial.point.batch_per_worker, _servers_of(trial)
    if batch is None or not trial.workload.counts_samples:
        return Check(name=name, passed=None, detail="the program counts its samples itself")
    spared = options.backup_workers if options else 0
    taking = max(1, trial.point.workers - spared)
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
        detail += f", expected {expected[index] * tokens}: {steps[index]} steps x {batch} x {taking} workers"
        return Check(name=name, passed=False, detail=detail)
    return Check(name=name, passed=True, detail="steps x batch in every window")


def _servers_of(trial: TrialSpec) -> ParameterServerOptions | None:
    workload = trial.workload
    return workload.parameter_server if isinstance(workload, TorchWorkload) and workload.served else None


def finite_loss(ranks: Sequence[RankRecord]) -> Check:
    """No loss that is NaN or infinite."""
    name = InvalidReason.non_finite_loss.value
    bad = [record.topology.rank for record in ranks if record.finite_loss is False]
    if bad:
        return Check(name=name, passed=False, detail=f"loss is NaN or infinite on rank {few(bad)}")
    if all(record.finite_loss is None for record in ranks):
        return Check(name=name, passed=None, detail="the program reported no loss")
    return Check(name=name, passed=True, detail="every loss read is finite")
