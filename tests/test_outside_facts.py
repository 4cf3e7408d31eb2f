"""A package of a user's own adds a kind of fact and its table in two files: from a rank's record to the report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes
FACT = """
from scalecurve_api.model import Model
from scalecurve_api.record.fact_kind import EVERY, FactKind


class Stalls(Model):
    seconds: float


def rare(trial, ranks):
    known = [stalls.seconds for stalls in map(STALLS.of, ranks) if stalls]
    return (max(known) < 10, f"{max(known):g} s of stalls at most") if known else None


STALLS = FactKind("stalls", Stalls, None, EVERY, bounds={"": {"seconds": (0, 1e6)}}, checks={"RareStalls": rare})
"""
SECTION = """
from outside_fact import STALLS

from scalecurve.render.table import Column, Table
from scalecurve.reporting.registry import Body, section


@section("stalls", "Stalls", order=200, question="bend")
def stalls(analysis):
    trials = [trial for bundle in analysis.bundles for trial in bundle.trials if trial.good]
    rows = [(trial.name, *(each.seconds for each in STALLS.of_ranks(trial.record))) for trial in trials]
    columns = (Column("trial", "Trial"), Column("first_s", "Rank 0", "number"), Column("second_s", "Rank 1", "number"))
    return Body((Table("stalls", "Stalls", columns, tuple(rows)),))
"""
BUNDLE = """
import sys
from pathlib import Path

from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.rank import RankRecord
from tests.analysis.synthetic import experiment, write_bundle
from tests.api.rank_records import GOOD, rank_record, trial

two = trial()
facts = [{"stalls": {"seconds": float(seconds)}} for seconds in sys.argv[2:]]
ranks = {at: RankRecord.model_validate({**rank_record(at, two).wire(), "facts": own}) for at, own in enumerate(facts)}
record = assemble(two, ranks, {}, GOOD).record
print(*(check.detail for check in record.checks if check.name == "RareStalls"))
of = experiment("outside", modes=["weak"], workers=[2], repetitions=1)
write_bundle(Path(sys.argv[1]), of, tables=False, change=lambda each: each.model_copy(update={"facts": record.facts}))
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two modules and their entry points, where Python finds them."""
    folder = tmp_path / "site"
    metadata = folder / "outside-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "outside_fact.py").write_text(FACT)
    (folder / "outside_section.py").write_text(SECTION)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    points = "[scalecurve.facts]\nstalls = outside_fact:STALLS\n[scalecurve.sections]\nstalls = outside_section\n"
    (metadata / "entry_points.txt").write_text(points)
    return folder


def python(site: Path | None, *arguments: str | Path) -> str:
    path = os.pathsep.join([*([str(site)] if site else []), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], env={**os.environ, "PYTHONPATH": path}, cwd=Path(__file__).parents[1],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def report(site: Path | None, bundle: Path) -> str:
    python(site, "-m", "scalecurve", "report", bundle, "--format", "md", "--out", bundle / "report")
    return (bundle / "report" / "report.md").read_text()


def bundle_of(site: Path, folder: Path, *seconds: float) -> str:
    """Write a bundle of one trial whose ranks stalled for so long, and return what the check of the package said."""
    return python(site, "-c", BUNDLE, folder, *map(str, seconds))


def test_a_fact_goes_from_a_rank_through_its_check_into_a_table(site: Path, tmp_path: Path) -> None:
    said = bundle_of(site, tmp_path / "bundle", 1.5, 0.25)
    assert said == "1.5 s of stalls at most\n"
    page = report(site, tmp_path / "bundle")
    assert "## Stalls" in page
    assert "| weak-2-1x2-r1 | 1.500 | 0.2500 |" in page


def test_an_impossible_fact_is_refused_by_its_bounds(site: Path, tmp_path: Path) -> None:
    bundle_of(site, tmp_path / "bundle", 1.5, -2)
    assert r"stalls\[1\].seconds is -2, expected 0 to 1e+06" in report(site, tmp_path / "bundle")


def test_a_record_is_read_without_the_package_that_knows_its_facts(site: Path, tmp_path: Path) -> None:
    bundle_of(site, tmp_path / "bundle", 1.5, 0.25)
    page = report(None, tmp_path / "bundle")
    assert "| weak-2-1x2-r1 | Succeeded |" in page
    assert "Stalls" not in page
