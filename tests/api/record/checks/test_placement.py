"""Runs whose ranks stood elsewhere than asked, crowded together, or were disturbed there."""

import pytest

from scalecurve_api.record.checks.placement import oversubscribed, placement
from scalecurve_api.record.rank import DeviceSamples, RankRecord
from scalecurve_api.record.verdict import judge
from scalecurve_api.spec.trial import InvalidReason, TrialPhase
from tests.api.judged import GPU, TWO, invalid, of, two
from tests.api.rank_records import GOOD, MEASURE, rank_record, ranks_of, trial

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
        "ranks per place: {'here': 1, 'there': 1}; expected layout 1x2",
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
        "ranks per place: {'a': 3, 'b': 1}; expected layout 2x2",
    )
    assert invalid(on("a", "a", None, "b"), of)[0] == "WrongPlacement", "one rank cannot name its node: pods count"


def test_pods_of_one_node_that_take_turns_on_a_device() -> None:
    ranks = {
        r: record.model_copy(update={"topology": record.topology.model_copy(update={"node": "a", "host": f"pod-{r}"})})
        for r, record in ranks_of(TWO, **GPU).items()
    }
    assert invalid(ranks) == ("Oversubscribed", "more than one rank on GPU-0 on a")


def test_a_rank_that_names_no_node_is_where_the_cluster_has_its_pod() -> None:
    spread = trial({"placement/workersPerNode": 1})
    ranks = {rank: rank_record(rank, spread, host=f"pod-{rank}", pod=f"pod-{rank}") for rank in range(2)}
    apart, together = (GOOD.model_copy(update={"placement": {"pod-0": "a", "pod-1": node}}) for node in ("b", "a"))
    assert judge(spread, ranks, apart).phase is TrialPhase.succeeded
    assert invalid(ranks, spread, outcome=together) == (
        "WrongPlacement",
        "ranks per place: {'a': 2}; expected layout 2x1",
    )


def test_uneven_placement() -> None:
    four = trial({"placement/workersPerNode": 2}, workers=4)
    ranks = {r: rank_record(r, four, host="a" if r < 3 else "b") for r in range(4)}
    assert invalid(ranks, four)[1] == "ranks per place: {'a': 3, 'b': 1}; expected layout 2x2"


def test_other_devices_than_were_given() -> None:
    given = GOOD.model_copy(update={"requested_devices": ["cpu:0", "cpu:7"]})
    detail = "rank 0 ran on cpu:0, rank 1 ran on cpu:1 of here; assigned: cpu:0, cpu:7"
    assert invalid(ranks_of(TWO), outcome=given) == ("WrongPlacement", detail)


def test_gpus_are_named_by_number_and_a_script_that_chooses_none_is_told() -> None:
    given = GOOD.model_copy(update={"requested_devices": ["GPU-0", "GPU-1"]})
    detail = "ranks 0, 1 ran on GPU 0 of here; assigned: GPU 0, GPU 1"
    ranks = list(ranks_of(TWO, **GPU).values())
    assert placement(TWO, ranks, given).detail == detail
    assert oversubscribed(ranks, given).detail == "more than one rank on GPU 0 on here"
    script = trial({"workload": {"program": "custom", "command": ["python", "train.py"]}})
    remedy = "; the script ignores LOCAL_RANK: torch.cuda.set_device(int(os.environ['LOCAL_RANK']))"
    assert placement(script, ranks, given).detail == detail + remedy


def test_what_the_cluster_says_of_a_pod_is_believed() -> None:
    placed = GOOD.model_copy(update={"placement": {"pod-a": "node-1"}})
    ranks = {rank: rank_record(rank, TWO, host="pod-a", pod="pod-a") for rank in range(2)}
    assert judge(TWO, ranks, placed).phase is TrialPhase.succeeded
    liar = {**ranks, 1: moved(ranks[1], node="node-2")}
    assert invalid(liar, outcome=placed) == (
        "WrongPlacement",
        "rank 1 reports node node-2, but the cluster has its pod pod-a on node-1",
    )
    stranger = {**ranks, 1: moved(ranks[1], pod="pod-z")}
    assert invalid(stranger, outcome=placed)[1] == "rank 1 ran in pod pod-z, which carries no worker of this job"


def moved(record: RankRecord, **where: str) -> RankRecord:
    return record.model_copy(update={"topology": record.topology.model_copy(update=where)})


def test_ranks_that_crowd_in_the_wrong_place_are_in_the_wrong_place_first() -> None:
    """As when Open MPI 5 starts all of them in the launcher: they share its cores, too."""
    placed = GOOD.model_copy(update={"placement": {"worker-0": "node-1"}})
    ranks = {rank: rank_record(rank, TWO, host="launcher", pod="launcher", cores=[0]) for rank in range(2)}
    reason, message = invalid(ranks, outcome=placed)
    assert reason == "WrongPlacement"
    assert "rank 0 ran in pod launcher" in message
    assert "more than one rank on core 0" in message


# Throttled


def test_throttled() -> None:
    hot = DeviceSamples(count=9, throttle_reasons=["sw_thermal_slowdown"])
    cool = DeviceSamples(count=9)
    ranks = {0: rank_record(0, TWO, device_samples=cool), 1: rank_record(1, TWO, device_samples=hot)}
    assert invalid(ranks) == ("Throttled", "clocks were throttled: rank 1: sw_thermal_slowdown")
    verdict = judge(TWO, ranks_of(TWO, device_samples=cool), GOOD)
    assert of(verdict, "Throttled") == (True, "no thermal or hardware slowdown seen")


def test_clocks_of_some_ranks_prove_nothing_for_the_others() -> None:
    verdict = judge(TWO, two(device_samples=DeviceSamples(count=9)), GOOD)
    assert of(verdict, "Throttled") == (None, "no device clocks to read on rank 0")
    assert verdict.phase is TrialPhase.succeeded


# NoisyNeighbor


def test_the_reason_as_older_records_spell_it() -> None:
    assert InvalidReason.of("NoisyNeighbour") is InvalidReason.of("NoisyNeighbor") is InvalidReason.noisy_neighbor
    assert InvalidReason.of("Noisy") is None


def test_a_noisy_neighbor_on_the_cores() -> None:
    assert invalid(two(foreign_load=0.4)) == (
        "NoisyNeighbor",
        "other processes took 40% of the cores of rank 1, allowed 25%",
    )


def test_cpu_steal_is_no_neighbor() -> None:
    assert invalid(two(stolen_load=0.4)) == ("CpuSteal", "the hypervisor took 40% of the cores of rank 1, allowed 25%")


@pytest.mark.parametrize(
    ("foreign", "steal", "reason", "detail"),
    [
        (0.2, 0.1, "NoisyNeighbor", "other processes took 20% of the cores of rank 1, and the hypervisor 10%"),
        (0.1, 0.2, "CpuSteal", "the hypervisor took 20% of the cores of rank 1, and other processes 10%"),
    ],
)
def test_the_larger_share_names_what_both_took(foreign: float, steal: float, reason: str, detail: str) -> None:
    assert invalid(two(foreign_load=foreign, stolen_load=steal)) == (reason, f"{detail}, allowed 25%")


def test_how_much_is_noise_is_for_the_experiment_to_say() -> None:
    strict = trial({"measure": {**MEASURE, "maxForeignLoad": 0.0}})
    assert invalid(ranks_of(strict), strict)[0] == "NoisyNeighbor"
    off = trial({"measure": {**MEASURE, "maxForeignLoad": 1.0}})
    assert judge(off, ranks_of(off, foreign_load=1.0), GOOD).phase is TrialPhase.succeeded


def test_a_noisy_neighbor_on_the_device() -> None:
    shared = DeviceSamples(count=9, other_processes=2)
    ranks = {r: rank_record(r, TWO, device=f"GPU-{r}", backend="nccl", device_samples=shared) for r in range(2)}
    assert invalid(ranks) == ("NoisyNeighbor", "other processes on the device of rank 0, 1")


def test_load_beside_a_gpu_is_told_and_allowed() -> None:
    ranks = {r: rank_record(r, TWO, device=f"GPU-{r}", backend="nccl", foreign_load=0.9) for r in range(2)}
    passed, detail = of(judge(TWO, ranks, GOOD), "NoisyNeighbor")
    assert passed is True
    assert detail.startswith("other processes took 90%")


def test_a_load_that_could_not_be_read() -> None:
    verdict = judge(TWO, ranks_of(TWO, foreign_load=None), GOOD)
    assert of(verdict, "NoisyNeighbor") == (None, "what other processes took of these cores could not be read")


def test_one_process_for_all_gpus_is_told_from_a_script_that_ignores_its_rank() -> None:
    """nn.DataParallel, which was started once for each GPU and has used all of them in every process."""
    custom = trial({"workload": {"program": "custom", "command": ["dp.py"]}})
    outcome = GOOD.model_copy(update={"requested_devices": ["GPU-a", "GPU-b"]})
    crowded = {"device": "GPU-a", "cores": []}
    told = {
        strategy: of(judge(custom, ranks_of(custom, strategy=strategy, **crowded), outcome), "WrongPlacement")[1]
        for strategy in ("DataParallel", "DistributedDataParallel")
    }
    assert "ranks 0, 1 ran on GPU 0" in told["DataParallel"]
    assert "nn.DataParallel, one process for all GPUs" in told["DataParallel"]
    assert "run --processes 1, or workload.singleProcess: true" in told["DataParallel"]
    assert "LOCAL_RANK" not in told["DataParallel"]
    assert "LOCAL_RANK" in told["DistributedDataParallel"]
