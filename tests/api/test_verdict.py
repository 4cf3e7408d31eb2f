"""One test for each way in which a run is not what was asked for, and for what could not be checked."""

from typing import Any

import pytest
from rank_records import GOOD, MEASURE, rank_record, ranks_of, trial, window

from scalebench_api.record.outcome import Outcome
from scalebench_api.record.rank import AllReduceRow, DeviceSamples, RankRecord, ServerCounts
from scalebench_api.record.verdict import SAME_SOFTWARE, Verdict, judge
from scalebench_api.trial import FailedReason, InvalidReason, TrialPhase, TrialSpec

TWO = trial()
GPU = {"device": "GPU-0", "backend": "nccl"}


def of(verdict: Verdict, reason: str) -> tuple[bool | None, str]:
    (check,) = [check for check in verdict.checks if check.name == reason]
    return check.passed, check.detail


def invalid(ranks: dict[int, RankRecord], of: TrialSpec = TWO, outcome: Outcome = GOOD) -> tuple[str | None, str]:
    verdict = judge(of, ranks, outcome)
    assert verdict.phase is TrialPhase.invalid
    return verdict.reason, verdict.message


def two(**changes: Any) -> dict[int, RankRecord]:
    """A good run of two ranks, of which the second is changed."""
    return {0: rank_record(0, TWO), 1: rank_record(1, TWO, **changes)}


def test_a_good_run_succeeds_and_says_what_was_looked_at() -> None:
    verdict = judge(TWO, ranks_of(TWO), GOOD)
    assert (verdict.phase, verdict.reason, verdict.message) == (TrialPhase.succeeded, None, "")
    assert {check.name for check in verdict.checks} == {*InvalidReason, SAME_SOFTWARE}
    unchecked = {check.name for check in verdict.checks if check.passed is None}
    assert unchecked == {"Throttled"}, "there are no device clocks on CPUs"
    assert all(check.detail for check in verdict.checks)


def test_a_cancelled_run_is_not_judged() -> None:
    outcome = Outcome(engine="local", cancelled=True, failure=FailedReason.rank_killed)
    assert judge(TWO, {}, outcome) == Verdict(TrialPhase.cancelled, None, "cancelled", ())
    assert judge(TWO, {}, outcome.model_copy(update={"message": "by the user"})).message == "by the user"


def test_a_failed_run_is_failed_whatever_else_is_wrong() -> None:
    outcome = Outcome(engine="local", failure=FailedReason.out_of_memory, message="rank 1: out of memory")
    verdict = judge(TWO, {0: rank_record(0, TWO, finite_loss=False)}, outcome)
    assert (verdict.phase, verdict.reason, verdict.message) == (
        TrialPhase.failed,
        "OutOfMemory",
        "rank 1: out of memory",
    )
    assert of(verdict, "NonFiniteLoss")[0] is False


def test_the_first_reason_counts_and_all_are_told() -> None:
    reason, message = invalid(two(finite_loss=False, parameter_checksum="other"))
    assert reason == "ReplicasDiverged"
    assert message == "parameters of rank 1 differ from the others'; loss is NaN or infinite on rank 1"


# RecordsMissing


def test_records_missing() -> None:
    assert invalid({}) == ("RecordsMissing", "no record from rank 0, 1 of 2")
    assert invalid({0: rank_record(0, TWO)})[0] == "RecordsMissing"
    assert invalid({0: rank_record(0, TWO)})[1].startswith("no record from rank 1 of 2")


def test_many_missing_records_are_not_all_named() -> None:
    sixteen = trial(workers=16)
    assert invalid({0: rank_record(0, sixteen)}, sixteen)[1].startswith(
        "no record from rank 1, 2, 3, 4, 5, 6 and 9 more of 16"
    )


def test_windows_missing_on_a_rank() -> None:
    reason, message = invalid(two(windows=[window(0)]))
    assert reason == "RecordsMissing"
    assert message == "rank 1 measured 1 windows, 3 steps; asked for: 2 windows of 3 steps"


def test_a_window_cut_short() -> None:
    assert invalid(two(windows=[window(0), window(1, steps=2)]))[0] == "RecordsMissing"


def test_windows_of_other_kinds_do_not_stand_in() -> None:
    assert invalid(two(windows=[window(0), window(1, "no-communication")]))[0] == "RecordsMissing"


def test_the_microbenchmark_records_sizes_not_windows() -> None:
    bench = trial({"workload": {"program": "allreduce"}})
    row = AllReduceRow(
        bytes=8, in_place=True, iterations=5, time_us_median=1, time_us_min=1, time_us_p95=1, algbw=1, busbw=1, errors=0
    )
    assert judge(bench, ranks_of(bench, windows=[], allreduce=[row]), GOOD).phase is TrialPhase.succeeded
    assert invalid(ranks_of(bench, windows=[]), bench) == ("RecordsMissing", "0 message sizes measured")


# WrongWorldSize


def test_wrong_world_size() -> None:
    reason, message = invalid({rank: rank_record(rank, TWO, world=1) for rank in range(2)})
    assert (reason, message) == ("WrongWorldSize", "world size 1, asked for 2")
    assert invalid(two(world=1)) == ("WrongWorldSize", "world size 1, 2, asked for 2")


# Oversubscribed


def test_oversubscribed_by_request() -> None:
    reason, message = invalid(ranks_of(TWO), outcome=GOOD.model_copy(update={"oversubscribed": True}))
    assert reason == "Oversubscribed"
    assert "--oversubscribe" in message


def test_oversubscribed_cores() -> None:
    assert invalid(two(cores=[0], device="cpu:0")) == ("Oversubscribed", "more than one rank on core 0 on here")


def test_oversubscribed_gpus() -> None:
    assert invalid(ranks_of(TWO, **GPU)) == ("Oversubscribed", "more than one rank on GPU-0 on here")


def test_the_same_core_of_another_host_is_another_core() -> None:
    spread = trial({"placement/workersPerNode": 1})
    ranks = {rank: rank_record(rank, spread, host=f"host{rank}", cores=[0], device="cpu:0") for rank in range(2)}
    assert judge(spread, ranks, GOOD).phase is TrialPhase.succeeded


# WrongPlacement


def test_wrong_placement() -> None:
    assert invalid(two(host="there")) == (
        "WrongPlacement",
        "ranks per place: {'here': 1, 'there': 1}; asked for layout 1x2",
    )


def test_ranks_of_one_pod_are_together_whatever_its_host_is_called() -> None:
    ranks = {rank: rank_record(rank, TWO, host=f"host{rank}", pod="pod-a") for rank in range(2)}
    assert of(judge(TWO, ranks, GOOD), "WrongPlacement") == (True, "layout 1x2")


def test_pods_of_one_node_are_one_place() -> None:
    of = trial({"placement/workersPerNode": 2}, workers=4)
    ranks = {r: rank_record(r, of, host=f"pod-{r}", pod=f"pod-{r}", cores=[r]) for r in range(4)}

    def on(*nodes: str | None) -> dict[int, RankRecord]:
        return {
            r: record.model_copy(update={"topology": record.topology.model_copy(update={"node": node})})
            for (r, record), node in zip(ranks.items(), nodes, strict=True)
        }

    assert judge(of, on("a", "a", "b", "b"), GOOD).phase is TrialPhase.succeeded
    assert invalid(on("a", "a", "a", "b"), of) == (
        "WrongPlacement",
        "ranks per place: {'a': 3, 'b': 1}; asked for layout 2x2",
    )
    assert invalid(on("a", "a", None, "b"), of)[0] == "WrongPlacement", "one rank cannot name its node: pods count"


def test_pods_of_one_node_that_take_turns_on_a_device() -> None:
    ranks = {
        r: record.model_copy(update={"topology": record.topology.model_copy(update={"node": "a", "host": f"pod-{r}"})})
        for r, record in ranks_of(TWO, **GPU).items()
    }
    assert invalid(ranks) == ("Oversubscribed", "more than one rank on GPU-0 on a")


def test_uneven_placement() -> None:
    four = trial({"placement/workersPerNode": 2}, workers=4)
    ranks = {r: rank_record(r, four, host="a" if r < 3 else "b") for r in range(4)}
    assert invalid(ranks, four)[1] == "ranks per place: {'a': 3, 'b': 1}; asked for layout 2x2"


def test_other_devices_than_were_given() -> None:
    given = GOOD.model_copy(update={"requested_devices": ["cpu:0", "cpu:7"]})
    assert invalid(ranks_of(TWO), outcome=given) == ("WrongPlacement", "devices cpu:0, cpu:1; given: cpu:0, cpu:7")
    given = GOOD.model_copy(update={"requested_devices": ["cpu:0", "cpu:1"]})
    assert judge(TWO, ranks_of(TWO), given).phase is TrialPhase.succeeded


# WrongBackend


def test_wrong_backend() -> None:
    assert invalid(ranks_of(TWO, backend="mpi")) == ("WrongBackend", "used mpi, asked for gloo")
    assert invalid(two(backend=None)) == ("WrongBackend", "used gloo, none, asked for gloo")


def test_auto_means_nccl_on_gpus() -> None:
    ranks = {rank: rank_record(rank, TWO, device=f"GPU-{rank}", backend="gloo") for rank in range(2)}
    assert invalid(ranks)[:2] == ("WrongBackend", "used gloo, asked for nccl")


def test_a_named_backend_is_held_to() -> None:
    named = trial({"workload": {"program": "allreduce", "backend": "mpi"}})
    assert of(judge(named, ranks_of(named), GOOD), "WrongBackend") == (False, "used gloo, asked for mpi")


def test_one_worker_needs_no_backend() -> None:
    one = trial(workers=1)
    assert of(judge(one, ranks_of(one), GOOD), "WrongBackend") == (True, "used none")


def test_the_backend_of_a_custom_program_is_not_known() -> None:
    custom = trial({"workload": {"program": "custom", "command": ["x"]}})
    assert of(judge(custom, ranks_of(custom, backend=None), GOOD), "WrongBackend") == (None, "used none")


# ReplicasDiverged


def test_replicas_diverged() -> None:
    assert invalid(two(parameter_checksum="other")) == (
        "ReplicasDiverged",
        "parameters of rank 1 differ from the others'",
    )


def test_without_a_checksum_nothing_is_claimed() -> None:
    verdict = judge(TWO, two(parameter_checksum=None), GOOD)
    assert verdict.phase is TrialPhase.succeeded
    assert of(verdict, "ReplicasDiverged")[0] is None


# NonFiniteLoss


def test_non_finite_loss() -> None:
    assert invalid(two(finite_loss=False)) == ("NonFiniteLoss", "loss is NaN or infinite on rank 1")


def test_a_program_that_reports_no_loss() -> None:
    assert of(judge(TWO, ranks_of(TWO, finite_loss=None), GOOD), "NonFiniteLoss") == (
        None,
        "the program reported no loss",
    )
    assert of(judge(TWO, two(finite_loss=None), GOOD), "NonFiniteLoss")[0] is True, "rank 0 speaks for all"


# Throttled


def test_throttled() -> None:
    hot = DeviceSamples(count=9, throttle_reasons=["sw_thermal_slowdown"])
    cool = DeviceSamples(count=9)
    ranks = {0: rank_record(0, TWO, device_samples=cool), 1: rank_record(1, TWO, device_samples=hot)}
    assert invalid(ranks) == ("Throttled", "clocks were held down: rank 1: sw_thermal_slowdown")
    verdict = judge(TWO, ranks_of(TWO, device_samples=cool), GOOD)
    assert of(verdict, "Throttled") == (True, "no thermal or hardware slowdown seen")


def test_clocks_of_some_ranks_prove_nothing_for_the_others() -> None:
    verdict = judge(TWO, two(device_samples=DeviceSamples(count=9)), GOOD)
    assert of(verdict, "Throttled") == (None, "no device clocks to read on rank 0")
    assert verdict.phase is TrialPhase.succeeded


# NoisyNeighbour


def test_a_noisy_neighbour_on_the_cores() -> None:
    assert invalid(two(foreign_load=0.4)) == (
        "NoisyNeighbour",
        "other processes took 40% of the cores of rank 1, allowed 25%",
    )


def test_how_much_is_noise_is_for_the_experiment_to_say() -> None:
    strict = trial({"measure": {**MEASURE, "maxForeignLoad": 0.0}})
    assert invalid(ranks_of(strict), strict)[0] == "NoisyNeighbour"
    off = trial({"measure": {**MEASURE, "maxForeignLoad": 1.0}})
    assert judge(off, ranks_of(off, foreign_load=1.0), GOOD).phase is TrialPhase.succeeded


def test_a_noisy_neighbour_on_the_device() -> None:
    shared = DeviceSamples(count=9, other_processes=2)
    ranks = {r: rank_record(r, TWO, device=f"GPU-{r}", backend="nccl", device_samples=shared) for r in range(2)}
    assert invalid(ranks) == ("NoisyNeighbour", "other processes on the device of rank 0, 1")


def test_load_beside_a_gpu_is_told_and_allowed() -> None:
    ranks = {r: rank_record(r, TWO, device=f"GPU-{r}", backend="nccl", foreign_load=0.9) for r in range(2)}
    passed, detail = of(judge(TWO, ranks, GOOD), "NoisyNeighbour")
    assert passed is True
    assert detail.startswith("other processes took 90%")


def test_a_load_that_could_not_be_read() -> None:
    verdict = judge(TWO, ranks_of(TWO, foreign_load=None), GOOD)
    assert of(verdict, "NoisyNeighbour") == (None, "the load of others on these cores could not be read")


# SameSoftware warns


@pytest.mark.parametrize("changes", [{"versions": {"torch": "2.1"}}, {"environment": {}}])
def test_other_software_on_a_rank_is_a_warning(changes: dict[str, Any]) -> None:
    verdict = judge(TWO, two(**changes), GOOD)
    assert verdict.phase is TrialPhase.succeeded
    assert of(verdict, SAME_SOFTWARE) == (False, "rank 1 differs from rank 0")


def test_every_reason_has_its_test() -> None:
    here = globals()
    for reason in InvalidReason:
        name = "".join("_" + c.lower() if c.isupper() else c for c in reason.value).strip("_")
        assert any(name in test for test in here if test.startswith("test_")), reason


def test_what_the_cluster_says_of_a_pod_is_believed() -> None:
    placed = GOOD.model_copy(update={"placement": {"pod-a": "node-1"}})
    ranks = {rank: rank_record(rank, TWO, host="pod-a", pod="pod-a") for rank in range(2)}
    assert judge(TWO, ranks, placed).phase is TrialPhase.succeeded
    liar = {**ranks, 1: moved(ranks[1], node="node-2")}
    assert invalid(liar, outcome=placed) == (
        "WrongPlacement",
        "rank 1 says it ran on node node-2; the cluster has its pod pod-a on node-1",
    )
    stranger = {**ranks, 1: moved(ranks[1], pod="pod-z")}
    assert invalid(stranger, outcome=placed)[1] == "rank 1 ran in pod pod-z, which carries no worker of this job"


def moved(record: RankRecord, **where: str) -> RankRecord:
    return record.model_copy(update={"topology": record.topology.model_copy(update=where)})


# WrongStrategy


def test_wrong_strategy() -> None:
    assert invalid(ranks_of(TWO, strategy=None)) == ("WrongStrategy", "wrapped by none, not by DistributedDataParallel")
    assert invalid(two(strategy="DataParallel"))[0] == "WrongStrategy"


def test_horovod_must_be_around_the_optimizer_and_say_what_carried_the_sums() -> None:
    horovod = trial({"workload": {"program": "horovod"}})
    good = {"strategy": "DistributedOptimizer", "backend": "mpi"}
    assert judge(horovod, ranks_of(horovod, **good), GOOD).reason is None
    bare = judge(horovod, ranks_of(horovod, **{**good, "strategy": None}), GOOD)
    assert (bare.reason, bare.message) == ("WrongStrategy", "wrapped by none, not by DistributedOptimizer")
    other = judge(horovod, ranks_of(horovod, **{**good, "backend": "gloo"}), GOOD)
    assert (other.reason, other.message) == ("WrongBackend", "used gloo, asked for mpi")
    good["backend"] = "nccl"
    on_gpus = {rank: rank_record(rank, horovod, device=f"GPU-{rank}", **good) for rank in range(2)}
    assert judge(horovod, on_gpus, GOOD).reason is None


def test_other_programs_strategies_are_not_judged() -> None:
    other = trial({"workload": {"program": "custom", "command": ["x"]}})
    assert of(judge(other, ranks_of(other, strategy="Own"), GOOD), "WrongStrategy")[0] is None


# ReplicasDiverged, where ranks hold shares


def sharded(**changes: Any) -> tuple[str | None, str]:
    fsdp = trial({"workload/strategy": "fsdp"})
    good = {"strategy": "FSDPModule", "parameters": 20, "shard_elements": 10, "initial_checksum": "before"}
    verdict = judge(fsdp, ranks_of(fsdp, **{**good, **changes}), GOOD)
    return verdict.reason, verdict.message


def test_shares_must_make_the_model_and_training_must_change_it() -> None:
    assert sharded() == (None, "")
    assert sharded(shard_elements=20) == (
        "ReplicasDiverged",
        "40 elements of parameters in 2 shares, and the model has 20",
    )
    reason, message = sharded(initial_checksum="abc")
    assert (reason, message) == (
        "ReplicasDiverged",
        "no parameter of rank 0, 1 has changed: nothing was trained",
    )


def test_one_process_for_all_gpus_has_nothing_to_compare() -> None:
    dp = trial({"workload/strategy": "dp"})
    verdict = judge(dp, ranks_of(dp, strategy="DataParallel", backend=None, parameter_checksum=None), GOOD)
    assert of(verdict, "ReplicasDiverged") == (None, "one set of parameters, copied to every GPU in each step")


# ReplicasDiverged, with parameter servers


def counted(server: int = 0, **changes: Any) -> ServerCounts:
    known = {"parameters": 20, "updates": 12, "gradients": 12, "received_bytes": 960, "sent_bytes": 960}
    return ServerCounts(**{"server": server, **known, **changes})


def served(updates: str = "asynchronous", **changes: Any) -> Verdict:
    of = trial({"workload/strategy": "parameter-server", "workload/parameterServer": {"updates": updates}})
    good = {
        "strategy": "ParameterServer",
        "backend": "tcp",
        "parameters": 20,
        "pushes": 6,
        "servers": [counted()],
        "initial_checksum": "before",
    }
    return judge(of, ranks_of(of, **{**good, **changes}), GOOD)


def test_parameter_servers_that_took_every_gradient() -> None:
    verdict = served()
    assert verdict.phase is TrialPhase.succeeded
    passed, detail = of(verdict, "ReplicasDiverged")
    assert passed is True
    assert detail.endswith("no bound on what they differ by before")
    assert of(served("synchronous"), "ReplicasDiverged") == (True, "parameters equal on 2 ranks")


@pytest.mark.parametrize(
    ("changes", "reason", "said"),
    [
        ({"pushes": 5}, "ReplicasDiverged", "parameter server 0 took 12 gradients, and the workers sent 10"),
        ({"servers": []}, "ReplicasDiverged", "0 parameter servers gave counts, asked for 1"),
        ({"servers": [counted(parameters=19)]}, "ReplicasDiverged", "servers hold 19 parameters of 20"),
        ({"backend": "gloo"}, "WrongBackend", "used gloo, asked for parameter servers by tcp"),
    ],
)
def test_parameter_servers_that_did_not(changes: dict[str, Any], reason: str, said: str) -> None:
    verdict = served(**changes)
    assert (verdict.reason, verdict.message) == (reason, said)


# WrongSamples


def test_wrong_samples() -> None:
    short = [window(0), window(1, samples=23)]
    assert invalid(two(windows=short)) == (
        "WrongSamples",
        "window 1 has 47 samples, and 3 steps x 8 x 2 workers are 48",
    )


def test_tokens_are_counted_alike_in_every_window() -> None:
    tokens = [window(0, samples=24 * 64), window(1, samples=24 * 64)]
    assert judge(TWO, ranks_of(TWO, windows=tokens, sample_unit="tokens"), GOOD).phase is TrialPhase.succeeded
    uneven = [window(0, samples=24 * 64), window(1, samples=24 * 63)]
    assert invalid(ranks_of(TWO, windows=uneven, sample_unit="tokens"))[0] == "WrongSamples"


def test_backup_workers_take_no_part_in_the_count() -> None:
    spared = trial(
        {
            "workload/strategy": "parameter-server",
            "workload/parameterServer": {"updates": "synchronous", "backupWorkers": 1},
        }
    )
    ranks = {0: rank_record(0, spared), 1: rank_record(1, spared, windows=[window(0, samples=0), window(1, samples=0)])}
    assert of(judge(spared, ranks, GOOD), "WrongSamples")[0] is True
    assert of(judge(spared, ranks_of(spared), GOOD), "WrongSamples")[0] is False


# FrozenChanged


@pytest.mark.parametrize(
    ("sums", "said"),
    [
        ([["a", "a"], ["a", "a"]], None),
        ([["a", "a"], []], "rank 1 has 0 checksums of its frozen layers, asked for 2"),
        ([["a", "a"], ["a", "b"]],
         "the frozen layers of rank 1 are others after the timed windows than before training"),
        ([["a", "a"], ["b", "b"]], "the frozen layers of rank 1 are others than those of rank 0"),
    ],
)  # fmt: skip
def test_frozen_changed(sums: list[list[str]], said: str | None) -> None:
    frozen = trial({"workload/transfer": {"train": "head"}})
    ranks = {rank: rank_record(rank, frozen, frozen_checksums=each) for rank, each in enumerate(sums)}
    verdict = judge(frozen, ranks, GOOD)
    assert (verdict.reason, verdict.message) == (("FrozenChanged", said) if said else (None, ""))


def test_ranks_that_crowd_in_the_wrong_place_are_in_the_wrong_place_first() -> None:
    """As when Open MPI 5 starts all of them in the launcher: they share its cores, too."""
    placed = GOOD.model_copy(update={"placement": {"worker-0": "node-1"}})
    ranks = {rank: rank_record(rank, TWO, host="launcher", pod="launcher", cores=[0]) for rank in range(2)}
    reason, message = invalid(ranks, outcome=placed)
    assert reason == "WrongPlacement"
    assert "rank 0 ran in pod launcher" in message
    assert "more than one rank on core 0" in message
