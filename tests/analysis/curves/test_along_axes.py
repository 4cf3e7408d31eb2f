"""Values of an axis side by side: the true order where it is beyond noise, and no order where it is not."""

from pathlib import Path

import pytest

from scalecurve.bundle.measurement import measure
from scalecurve.bundle.open import open_bundle
from scalecurve.curves.along_axes import ValueResult, along_axes, axis_table, best_of
from scalecurve_api.spec.trial import Point
from tests.analysis.synthetic import Truth, experiment, write_bundle

SLOWER = {"gloo": 1.0, "nccl": 1.0, 25: 1.0, 50: 1.25}


def results(
    folder: Path, matrix: dict[str, list[object]], noise: float = 0.001, repetitions: int = 3
) -> tuple[ValueResult, ...]:
    def step_s(point: Point) -> float:
        factor = 1.0
        for value in point.axes.values():
            factor *= SLOWER.get(value, 1.0)  # type: ignore[arg-type]
        return 0.1 * factor

    spec = experiment(
        "mine", modes=["weak"], workers=[1, 2], repetitions=repetitions, windows=3, steps_per_window=10, matrix=matrix
    )
    bundle = write_bundle(folder, spec, Truth(step_s=step_s, step_cv=noise, repetition_cv=noise), tables=False)
    return along_axes(list(measure(open_bundle(bundle))))


def test_a_value_that_is_slower_is_said_to_be(tmp_path: Path) -> None:
    found = results(tmp_path / "b", {"options.bucketCapMb": [25, 50]})
    assert [(r.workers, r.value, r.verdict) for r in found] == [
        (1, 25, "fastest"),
        (1, 50, "slower than 25"),
        (2, 25, "fastest"),
        (2, 50, "slower than 25"),
    ]
    slower = found[-1].against
    assert slower is not None
    assert slower.value == pytest.approx(-0.2, abs=0.01)
    assert slower.low is not None
    assert slower.high is not None
    assert slower.low < -0.2 < slower.high
    assert found[0].against is None
    assert list(best_of(found)) == ["options.bucketCapMb at 2 workers: 25 is the fastest"]


def test_values_that_noise_hides_are_tied(tmp_path: Path) -> None:
    found = results(tmp_path / "b", {"options.gradientAsBucketView": [True, False]}, noise=0.05)
    assert sorted(r.verdict.split()[0] for r in found) == ["highest", "highest", "tied", "tied"]
    assert "no difference shown between" in next(iter(best_of(found)))


def test_no_value_is_called_the_fastest_where_the_variation_is_not_known(tmp_path: Path) -> None:
    found = results(tmp_path / "b", {"options.bucketCapMb": [25, 50]}, noise=0.6, repetitions=2)
    assert any(r.verdict.startswith("not known") for r in found if r.workers == 2)
    (said,) = best_of(found)
    assert "which value is the fastest is not known" in said


def test_single_repetitions_give_no_verdict(tmp_path: Path) -> None:
    found = results(tmp_path / "b", {"options.bucketCapMb": [25, 50]}, repetitions=1)
    assert [r.verdict for r in found] == ["highest", "not known against 25"] * 2
    (said,) = best_of(found)
    assert "which value is the fastest is not known" in said


def test_axes_are_compared_at_each_value_of_the_others(tmp_path: Path) -> None:
    found = results(tmp_path / "b", {"options.bucketCapMb": [25, 50], "options.gradientAsBucketView": [True, False]})
    of_bucket = [r for r in found if r.axis == "options.bucketCapMb" and r.workers == 2]
    assert [(r.rest, r.value) for r in of_bucket] == [
        ("", 25),
        ("", 50),
        ("options.gradientAsBucketView=false", 25),
        ("options.gradientAsBucketView=false", 50),
    ]
    assert len(axis_table(found).rows) == 16


def test_nothing_is_compared_where_only_the_worker_count_varies(tmp_path: Path) -> None:
    assert results(tmp_path / "b", {}) == ()
