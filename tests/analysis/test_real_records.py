"""Records of real H200s, as the engine and the worker wrote them, are read as they were on that day."""

from pathlib import Path

from scalecurve.bundle.open import open_bundle, open_bundles
from scalecurve.bundle.pack import unpack
from scalecurve.bundle.step_summary import summarize_steps
from scalecurve.checks.diagnose import diagnose
from scalecurve.curves.compute import scaling

FIXTURES = Path(__file__).parents[1] / "fixtures"
RESNET50, ALLREDUCE = FIXTURES / "resnet50-h200.zip", FIXTURES / "allreduce-h200.zip"


def test_every_record_is_complete_and_succeeded() -> None:
    bundles = open_bundles([RESNET50, ALLREDUCE])
    assert [bundle.problems for bundle in bundles] == [(), ()]
    assert [len(bundle.trials) for bundle in bundles] == [18, 6]
    assert all(trial.good for bundle in bundles for trial in bundle.trials)
    assert summarize_steps(bundles).problems == ()


def test_messages_of_all_sizes_have_no_step_time_in_common() -> None:
    bundle = open_bundle(ALLREDUCE)
    assert summarize_steps([bundle]).rows == 0
    assert diagnose([bundle]).findings == ()


def test_a_damaged_table_of_the_all_reduce_program_is_still_noticed(tmp_path: Path) -> None:
    folder = unpack(ALLREDUCE, tmp_path / "bundle")
    table = next(folder.glob("trials/*/steps.parquet"))
    table.write_bytes(table.read_bytes()[:-100])
    ((_, problem),) = summarize_steps(open_bundles([folder])).problems
    assert problem.file == f"trials/{table.parent.name}/steps.parquet"


def test_weak_efficiency_is_the_ratio_of_throughputs() -> None:
    result = scaling([open_bundle(RESNET50)])
    weak = next(series for series in result.series if series.name == "weak")
    rates = {point.workers: point.throughput.value for point in weak.points if point.throughput}
    four = next(point for point in weak.points if point.workers == 4)
    assert four.efficiency is not None
    assert abs(four.efficiency.value - rates[4] / rates[1] / 4) < 1e-9
