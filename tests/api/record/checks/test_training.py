"""Runs that trained otherwise than asked: backend, strategy, replicas, loss, samples, frozen layers."""

from typing import Any

import pytest

from scalecurve_api.features.parameter_servers.facts import ServerCounts
from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.checks.proof import not_shown
from scalecurve_api.record.rank import BatchSizes
from scalecurve_api.record.rejudge import rejudge
from scalecurve_api.record.verdict import Verdict, judge
from scalecurve_api.spec.trial import TrialPhase
from tests.api.judged import TWO, invalid, of, two
from tests.api.rank_records import GOOD, rank_record, ranks_of, steps_of, trial, window, with_facts

# WrongBackend


def test_wrong_backend() -> None:
    assert invalid(ranks_of(TWO, backend="mpi")) == ("WrongBackend", "used mpi, expected gloo")
    assert invalid(two(backend=None)) == ("WrongBackend", "used gloo, none, expected gloo")


def test_auto_means_nccl_on_gpus() -> None:
    ranks = {rank: rank_record(rank, TWO, device=f"GPU-{rank}", backend="gloo") for rank in range(2)}
    assert invalid(ranks)[:2] == ("WrongBackend", "used gloo, expected nccl")


def test_a_named_backend_is_held_to() -> None:
    named = trial({"workload": {"program": "allreduce", "backend": "mpi"}})
    assert of(judge(named, ranks_of(named), GOOD), "WrongBackend") == (False, "used gloo, expected mpi")


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
        "parameters of rank 1 differ from the other ranks'",
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


# WrongStrategy


def test_wrong_strategy() -> None:
    assert invalid(ranks_of(TWO, strategy=None)) == ("WrongStrategy", "wrapped by none, not DistributedDataParallel")
    assert invalid(two(strategy="DataParallel"))[0] == "WrongStrategy"


def test_horovod_must_be_around_the_optimizer_and_say_what_carried_the_sums() -> None:
    horovod = trial({"workload": {"program": "horovod"}})
    good = {"strategy": "DistributedOptimizer", "backend": "mpi"}
    assert judge(horovod, ranks_of(horovod, **good), GOOD).reason is None
    bare = judge(horovod, ranks_of(horovod, **{**good, "strategy": None}), GOOD)
    assert (bare.reason, bare.message) == ("WrongStrategy", "wrapped by none, not DistributedOptimizer")
    other = judge(horovod, ranks_of(horovod, **{**good, "backend": "gloo"}), GOOD)
    assert (other.reason, other.message) == ("WrongBackend", "used gloo, expected mpi")
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
        "40 elements of parameters in 2 shards, but the model has 20",
    )
    reason, message = sharded(initial_checksum="abc")
    assert (reason, message) == (
        "NotTrained",
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
    ("servers", "said"),
    [
        ([counted()], None),
        ([], "0 parameter servers reported counts, expected 1"),
        ([counted(parameters=19)], "servers hold 19 of 20 parameters"),
    ],
)
def test_a_record_of_parameter_servers_is_judged_again_by_their_counts(
    servers: list[ServerCounts], said: str | None
) -> None:
    of = trial({"workload/strategy": "parameter-server"})
    good = {"strategy": "ParameterServer", "backend": "tcp", "parameters": 20, "pushes": 6, "servers": [counted()]}
    ranks = ranks_of(of, **good, initial_checksum="before")
    record = assemble(of, ranks, {rank: steps_of(rank) for rank in ranks}, GOOD).record
    assert record.phase is TrialPhase.succeeded
    broken = rejudge(with_facts(record, servers=servers))
    assert (broken.detail if broken else None) == said


@pytest.mark.parametrize(
    ("changes", "reason", "said"),
    [
        ({"pushes": 5}, "ReplicasDiverged", "parameter server 0 took 12 gradients, but the workers sent 10"),
        ({"servers": []}, "ReplicasDiverged", "0 parameter servers reported counts, expected 1"),
        ({"servers": [counted(parameters=19)]}, "ReplicasDiverged", "servers hold 19 of 20 parameters"),
        ({"backend": "gloo"}, "WrongBackend", "used gloo, expected tcp"),
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
        "window 1 has 47 samples, expected 48: 3 steps x 8 x 2 workers",
    )


CUSTOM = trial({"workload": {"program": "custom", "command": ["x"]}})


@pytest.mark.parametrize(
    ("samples", "fault"),
    [
        (240, "rank 1 counted 80 samples a step in window 1"),  # ten times too many
        (48, "rank 1 counted 16 samples a step in window 1"),  # on one rank twice as many
        (20, "rank 1 counted 6.667 samples a step in window 1"),
        (22, None),  # an epoch's last batch
    ],
)
def test_wrong_samples_of_a_custom_program(samples: int, fault: str | None) -> None:
    windows = [window(0), window(1, samples=samples)]
    ranks = {0: rank_record(0, CUSTOM), 1: rank_record(1, CUSTOM, windows=windows)}
    passed, detail = of(judge(CUSTOM, ranks, GOOD), "WrongSamples")
    assert passed is (fault is None)
    assert detail.startswith(fault or "batches of 8")


def test_wrong_samples_in_strong_mode() -> None:
    """A script that keeps its batch per worker, where the global batch is to be kept."""
    strong = trial(
        {
            "workload": {"program": "custom", "command": ["x"]},
            "scaling/modes": ["strong"],
            "scaling/batch": {"global": 8},
        }
    )
    verdict = judge(strong, ranks_of(strong), GOOD)
    assert of(verdict, "WrongSamples")[0] is False
    assert "the experiment has batches of 4 at this point" in of(verdict, "WrongSamples")[1]


def test_wrong_samples_say_how_several_batches_a_step_are_stated() -> None:
    """Five critic updates make a step of a GAN, each with the batch that the script was handed."""
    gan = trial({"workload": {"program": "custom", "command": ["train.py", "{batchPerWorker}"]}})
    windows = [window(0, samples=5 * 24), window(1, samples=5 * 24)]
    passed, detail = of(judge(gan, ranks_of(gan, windows=windows), GOOD), "WrongSamples")
    assert passed is False
    assert "counted 40 samples a step in window 0: 40 is 5 batches of 8; set scaling.batch" in detail
    assert detail.endswith("the samples of a step, 40, and hand the script {batchPerWorker/5}")


@pytest.mark.parametrize(("most_common", "varies"), [(0.1, True), (0.9, False)])
def test_wrong_samples_of_batches_of_tokens_name_what_varies(most_common: float, varies: bool) -> None:
    sizes = BatchSizes(least=5, most=8, mean=6.5, most_common=most_common)
    windows = [window(0, samples=20), window(1, samples=20)]
    detail = of(judge(CUSTOM, ranks_of(CUSTOM, windows=windows, batch_sizes=sizes), GOOD), "WrongSamples")[1]
    assert ("the batch varies (5 to 8, mean 6.5)" in detail) is varies
    assert ('attach(model, unit="tokens")' in detail) is varies
    assert ("drop_last=True" in detail) is not varies


def test_untimed_work() -> None:
    """Half a second of work in the step before each window."""
    hidden = [window(index, lead_ns=600_000_000) for index in range(2)]
    verdict = judge(CUSTOM, ranks_of(CUSTOM, windows=hidden), GOOD)
    assert verdict.reason == "UntimedWork"
    assert "took 0.5 s more than a timed one on rank 0" in verdict.message
    once = [window(0, lead_ns=100_000_000), window(1, lead_ns=140_000_000)]
    assert of(judge(CUSTOM, ranks_of(CUSTOM, windows=once), GOOD), "UntimedWork")[0] is True


def test_a_step_without_a_processor_is_no_untimed_work() -> None:
    """The kernel counts for how long a busy machine held up rank 0; rank 1 waits for it."""
    waited = [window(0, lead_ns=100_000_000), window(1, lead_ns=700_000_000, lead_waited_ns=550_000_000)]
    held = [window(0, lead_ns=100_000_000), window(1, lead_ns=700_000_000, lead_waited_ns=1000)]
    ranks = {0: rank_record(0, CUSTOM, windows=waited), 1: rank_record(1, CUSTOM, windows=held)}
    passed, detail = of(judge(CUSTOM, ranks, GOOD), "UntimedWork")
    assert (passed, detail) == (True, "untimed steps took no more than timed ones")


@pytest.mark.parametrize(("count", "passed"), [(2, None), (5, None), (20, True)])
def test_work_before_one_window_leaves_the_trial_unproved(count: int, passed: bool | None) -> None:
    """Half a second more before one window: 30 % of 2 windows of 0.8 s, 12 % of 5, and 3 % of 20."""
    hidden = [window(0, lead_ns=700_000_000), *(window(index, lead_ns=100_000_000) for index in range(1, count))]
    verdict = judge(CUSTOM, ranks_of(CUSTOM, windows=hidden), GOOD)
    found, detail = of(verdict, "UntimedWork")
    assert found is passed
    assert f"1 of {count} on rank 1, by up to 0.6 s" in detail, "and it is not silent"
    assert ("UntimedWork" in not_shown(CUSTOM, TrialPhase.succeeded, verdict.checks)) is (passed is None)


def test_work_before_one_window_of_one_worker() -> None:
    alone = trial({"workload": {"program": "custom", "command": ["x"]}}, workers=1)
    hidden = [window(0, lead_ns=700_000_000), window(1, lead_ns=100_000_000)]
    verdict = judge(alone, {0: rank_record(0, alone, windows=hidden)}, GOOD)
    assert not_shown(alone, verdict.phase, verdict.checks) == ("UntimedWork",)
    clean = judge(alone, {0: rank_record(0, alone)}, GOOD)
    assert not_shown(alone, clean.phase, clean.checks) == ()


def test_a_wrong_clock_is_noticed() -> None:
    second = 10**9
    for told, kernel, passed in ((60, 60, True), (60, 60.1, True), (30, 60, False), (60, 59.5, False)):
        times = {"started_ns": 0, "ended_ns": int(told * second), "kernel_ns": int(kernel * second)}
        verdict = judge(TWO, ranks_of(TWO, **times), GOOD)
        assert of(verdict, "WrongClock")[0] is passed
        assert verdict.reason == (None if passed else "WrongClock")
    assert (
        "30 s passed on the clock of rank 0, 60 s by the kernel"
        in judge(TWO, ranks_of(TWO, started_ns=0, ended_ns=30 * second, kernel_ns=60 * second), GOOD).message
    )
    assert "WrongClock" not in {check.name for check in judge(TWO, ranks_of(TWO), GOOD).checks}, "an older worker's"


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
        ([["a", "a"], []], "rank 1 has 0 checksums of its frozen layers, expected 2"),
        ([["a", "a"], ["a", "b"]],
         "the frozen layers of rank 1 differ after the timed windows from before training"),
        ([["a", "a"], ["b", "b"]], "the frozen layers of rank 1 differ from those of rank 0"),
    ],
)  # fmt: skip
def test_frozen_changed(sums: list[list[str]], said: str | None) -> None:
    frozen = trial({"workload/transfer": {"train": "head"}})
    ranks = {rank: rank_record(rank, frozen, frozen_checksums=each) for rank, each in enumerate(sums)}
    verdict = judge(frozen, ranks, GOOD)
    assert (verdict.reason, verdict.message) == (("FrozenChanged", said) if said else (None, ""))


# WrongPeak


@pytest.mark.parametrize("flops", ["flops_per_sample", "hardware_flops_per_sample"])
def test_more_than_the_peak_is_a_wrong_peak_and_no_invalid_trial(flops: str) -> None:
    verdict = judge(TWO, ranks_of(TWO, **{flops: 2e10}, peak_flops=1e12), GOOD)
    passed, detail = of(verdict, "WrongPeak")
    assert passed is False
    assert "160.0% of the peak of 1.0 TFLOP/s (dense)" in detail
    assert verdict.phase is TrialPhase.succeeded


def test_a_peak_that_is_not_exceeded_passes_and_an_unknown_one_is_not_checked() -> None:
    assert of(judge(TWO, ranks_of(TWO, flops_per_sample=1e10, peak_flops=1e12), GOOD), "WrongPeak")[0] is True
    unknown = judge(TWO, ranks_of(TWO, flops_per_sample=1e10), GOOD)
    assert "WrongPeak" not in [check.name for check in unknown.checks]
