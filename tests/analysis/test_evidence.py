"""The committed evidence can still be read: records of real H200s, as the engine and the worker wrote them."""

from pathlib import Path

from scalecurve.bundle.open import open_bundles
from scalecurve.bundle.step_summary import digest_all
from scalecurve.checks.diagnose import diagnose
from scalecurve.curves.compute import scaling

H200 = Path(__file__).parents[2] / "docs" / "evidence" / "h200"


def test_every_record_of_the_h200_runs_is_whole_and_good() -> None:
    bundles = open_bundles([H200 / "resnet50-bundle", H200 / "allreduce-bundle"])
    assert [bundle.problems for bundle in bundles] == [(), ()]
    assert [len(bundle.trials) for bundle in bundles] == [18, 6]
    assert all(trial.good for bundle in bundles for trial in bundle.trials)
    assert digest_all(bundles).problems == ()


def test_messages_of_all_sizes_are_no_distribution_of_step_times() -> None:
    (bundle,) = open_bundles([H200 / "allreduce-bundle"])
    assert digest_all([bundle]).rows == 0
    assert diagnose([bundle]).findings == ()


def test_a_damaged_table_of_the_all_reduce_program_is_still_noticed(tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "bundle"
    shutil.copytree(H200 / "allreduce-bundle", copy)
    table = next(copy.glob("trials/*/steps.parquet"))
    table.write_bytes(table.read_bytes()[:-100])
    ((_, problem),) = digest_all(open_bundles([copy])).problems
    assert problem.file == f"trials/{table.parent.name}/steps.parquet"


def test_weak_efficiency_on_h200s_is_the_ratio_of_throughputs() -> None:
    result = scaling(open_bundles([H200 / "resnet50-bundle"]))
    weak = next(series for series in result.series if series.name == "weak")
    rates = {point.workers: point.throughput.value for point in weak.points if point.throughput}
    four = next(point for point in weak.points if point.workers == 4)
    assert four.efficiency is not None
    assert abs(four.efficiency.value - rates[4] / rates[1] / 4) < 1e-9
