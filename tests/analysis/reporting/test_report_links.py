"""A report lands in the folder that was named, whatever the bundle's author laid there."""

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundles
from scalecurve.reporting import report
from scalecurve_api.files import UnsafePathError
from tests.analysis.synthetic import experiment, write_bundle


@pytest.mark.parametrize("place", ["report", "report/tables"])
def test_a_link_in_the_bundle_is_not_written_through(tmp_path: Path, place: str) -> None:
    victim, bundle = tmp_path / "home", write_bundle(tmp_path / "b", experiment(), tables=False)
    victim.mkdir()
    (bundle / place).parent.mkdir(exist_ok=True)
    (bundle / place).symlink_to(victim)
    with pytest.raises(UnsafePathError, match=f"is a link, which scalecurve never makes here: '{bundle / place}'"):
        report(open_bundles([bundle]), bundle / "report", ["csv"])
    assert list(victim.iterdir()) == []


def test_a_file_that_is_a_link_is_replaced_and_not_what_it_points_to(tmp_path: Path) -> None:
    thesis, bundle = tmp_path / "thesis.tex", write_bundle(tmp_path / "b", experiment(), tables=False)
    thesis.write_text("years of work")
    (bundle / "report").mkdir()
    (bundle / "report" / "report.md").symlink_to(thesis)
    report(open_bundles([bundle]), bundle / "report", ["md"])
    assert thesis.read_text() == "years of work"
    assert not (bundle / "report" / "report.md").is_symlink()


def test_the_folder_that_the_user_names_may_be_a_link(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "b", experiment(), tables=False)
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    (written,) = report(open_bundles([bundle]), tmp_path / "out", ["md"])
    assert written == tmp_path / "out" / "report.md"
    assert (tmp_path / "disk" / "report.md").is_file()
