from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve_api.features.collectives.facts import AllReduceRow
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_models.collectives.comparison import (
    all_reduce_points,
    compare_algorithms,
    compare_bundle,
    find_requested_algorithms,
)
from scalecurve_models.collectives.costs import ALGORITHMS, LinkCost, RankGroup, cost
from scalecurve_models.collectives.tables import collective_tables, selected
from tests.analysis.collective_rows import GB_S, LATENCY_US, collectives_bundle
from tests.analysis.synthetic import experiment, write_bundle
from tests.models.collectives.collectives_cases import SIZES, A, B, points


def test_one_worker_count_cannot_tell_algorithms_apart_and_that_is_said():
    compared = compare_algorithms(points("ring", [8], SIZES, noise=0.02))
    assert compared.best is None
    assert "a single worker count" in compared.note
    errors = {judged.size_error for judged in compared.algorithms}
    assert max(errors) - min(errors) < 1e-9


def ring_rows(trial):
    n = trial.point.workers
    times = {size: cost(ALGORITHMS["ring"], RankGroup(n), size, LinkCost(A, B)) * 1e6 for size in SIZES}
    return [
        AllReduceRow(
            bytes=size,
            in_place=True,
            iterations=20,
            time_us_median=us,
            time_us_min=us,
            time_us_p95=us,
            algbw=size / us / 1e3,
            busbw=size / us / 1e3 * 2 * (n - 1) / n,
            errors=0,
        )
        for size, us in times.items()
    ]


def test_points_come_from_the_rows_of_a_bundle(tmp_path):
    spec = experiment(
        "bench", modes=["weak"], workers=[2, 4], repetitions=2, workload={"program": "allreduce", "device": "cpu"}
    )

    found = all_reduce_points(open_bundle(write_bundle(tmp_path / "b", spec, allreduce=ring_rows, tables=False)))
    assert list(found) == ["weak"]
    assert len(found["weak"]) == 2 * len(SIZES)
    compared = compare_algorithms(found["weak"], series="weak")
    assert compared.best.fit.algorithm.name == "ring"
    assert compared.best.size_error < 1e-9
    assert compared.best.ranks_error is None
    assert collective_tables([compared])[2].frame()["error"].abs().max() < 1e-9


@pytest.mark.parametrize(("backend", "shown"), [("mpi", "tree"), ("nccl", "double-tree")])
def test_the_algorithm_that_was_asked_for_is_the_one_whose_numbers_stand(tmp_path, backend, shown):
    def rows(trial):
        alone = ring_rows(trial)
        return [*alone, alone[-1].model_copy(update={"messages": 7})]

    spec = experiment(
        "bench",
        modes=["weak"],
        workers=[2, 4],
        workload={"program": "allreduce", "backend": backend},
        matrix={"allReduce": ["tree", "auto"]},
    )
    bundle = open_bundle(
        write_bundle(
            tmp_path / "b",
            spec,
            allreduce=rows,
            tables=False,
            change=lambda record: record.model_copy(update={"backend": backend}),
        )
    )
    assert find_requested_algorithms(bundle) == {"weak allReduce=tree": shown}
    found = all_reduce_points(bundle)["weak allReduce=tree"]
    assert len(found) == 2 * len(SIZES), "several messages are no point of a model of one"
    compared = compare_algorithms(found, series="weak", requested=shown)
    assert compared.best.fit.algorithm.name == "ring"
    frame = collective_tables([compared])[2].frame()
    assert set(frame["algorithm"]) == {shown}
    assert (frame["bound_us"] > 0).all()


H200 = Path(__file__).parents[2] / "fixtures" / "allreduce-h200.zip"


def test_left_out_sizes_of_a_real_record_are_predicted(capsys):
    found = all_reduce_points(open_bundle(H200))
    compared = compare_algorithms(next(iter(found.values())))
    small, large = compared.best.small_error, compared.best.large_error
    with capsys.disabled():
        print(f"\nNCCL on H200, left-out sizes, {compared.best.fit.algorithm.name}:", end=" ")
        print(f"{small:.1%} below 1 MiB, {large:.1%} from 1 MiB on")
    assert small <= 0.20
    assert large <= 0.10


def test_every_collective_has_a_latency_and_a_bandwidth_of_its_own(tmp_path):
    comparisons, failures = compare_bundle(open_bundle(collectives_bundle(tmp_path / "b", workers=(2, 4))))
    assert [each.collective for each in comparisons] == list(Collective)
    assert failures == ()
    for each in comparisons:
        fit = selected(each).fit
        assert fit.regimes[-1].bandwidths[-1].value == pytest.approx(GB_S, rel=0.02), each.series
        # Most of a small message's time does not grow with the ranks: the launch, where it can be separated.
        least = fit.seconds(RankGroup(2), 8) * 1e6
        assert least == pytest.approx(LATENCY_US, rel=0.02), each.series
    assert collective_tables(comparisons)[0].title == "Collective models"
