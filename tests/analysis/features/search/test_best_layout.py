"""The best layout of a search, in its report."""

from pathlib import Path

from tests.analysis.features.search.test_rounds import BEST, finished, report


def test_the_best_of_a_search_stands_in_the_report(tmp_path: Path) -> None:
    searched = finished(tmp_path)
    searched.record()
    assert f"options.bucketCapMb={BEST} is best" in report(searched.bundle, tmp_path / "r")
