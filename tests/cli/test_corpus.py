"""``scalecurve corpus`` and ``scalecurve compare MINE --with``: published results, one's own, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import FunctionType

import pytest
from click.testing import CliRunner

from scalecurve.cli import analyses, cli
from scalecurve_api.registry import Registry
from scalecurve_corpus.corpus_file import read_corpus, write_corpus
from tests.corpus.published import corpus, kind

from .conftest import Desk

SESSIONS = Path("docs/evidence/gpu/sessions.zip").resolve()


@pytest.fixture
def published(desk: Desk) -> Path:
    """Six systems of eight H100s, the slowest at 3,700 and the fastest at 4,200 samples a second per device."""
    path = desk.folder / "published.corpus"
    write_corpus(corpus(*kind([3700.0, 3800.0, 3900.0, 4000.0, 4100.0, 4200.0])), path)
    return path


def test_a_bundle_stands_among_published_systems(desk: Desk, published: Path):
    tree = desk.here("compare", SESSIONS, "--with", published, "-o", "json", code=0).json
    by_point = {(row["series"], row["workers"]): row for row in tree["standing"]["rows"]}
    weak = by_point["weak", 2]
    assert (weak["systems"], weak["submitters"], weak["slower"]) == (6, 6, 2)
    assert weak["share"]["value"] == pytest.approx(3889 / 3950, rel=1e-3)
    assert 0.05 < weak["percentile"]["low"] < weak["percentile"]["value"] < weak["percentile"]["high"] < 0.8
    assert "Apache-2.0" in str(tree["standing"]["notes"])
    assert {row["submitter"] for row in tree["comparable"]["rows"]} == {f"S{at}" for at in range(6)}


def test_what_has_too_few_beside_it_stands_next_to_the_nearest_and_is_not_judged(desk: Desk, published: Path):
    rows = desk.here("compare", SESSIONS, "--with", published, "--as", "vgg16", "-o", "json", code=0).json["nearest"][
        "rows"
    ]
    assert {(row["submitter"], row["model"], row["devices"]) for row in rows} == {
        (f"S{at}", "resnet", "8 H100") for at in range(3)
    }
    assert all("yours is vgg16" in row["differs"] and "expected 5 of 3" in row["why"] for row in rows)


def test_the_h200s_stand_beside_the_nearest_published_systems(desk: Desk):
    """The first bundle of the README: exit code 2, and six times "1 comparable system of 1 submitter"."""
    done = desk.here("compare", SESSIONS.parents[1] / "h200/resnet50.zip", "--with", "corpus", code=0)
    assert "Percentile" not in done.out
    assert done.out.count("8 H200") == 6
    assert "your device is H200" in done.out


def test_collectives_stand_beside_published_bus_bandwidth(desk: Desk):
    bundle = SESSIONS.with_name("collectives.zip")
    rows = desk.here("compare", bundle, "--with", "corpus", "-o", "json", code=0).json["busbw"]["rows"]
    assert {row["collective"] for row in rows} >= {"all-reduce", "broadcast"}
    assert all(row["source"].startswith("https://") and 0 < row["share"] < 2 for row in rows)


def test_one_bundle_alone_and_a_model_without_a_corpus_are_refused(desk: Desk):
    assert "--with corpus" in desk.here("compare", SESSIONS, code=2).err
    assert "--as applies to --with" in desk.here("compare", SESSIONS, SESSIONS, "--as", "bert", code=2).err


@pytest.mark.parametrize("text", ["", "PAR1 truncated", "model,rate\nbert,1\n"])
def test_what_is_no_corpus_is_named_in_a_line(desk: Desk, text: str):
    (desk.folder / "odd.corpus").write_text(text)
    done = desk.here("compare", SESSIONS, "--with", "odd.corpus", code=2)
    assert done.err.count("\n") == 1
    assert "odd.corpus" in done.err


def test_the_shipped_corpus_is_listed_and_shown(desk: Desk):
    sources = desk.here("corpus", "list", "-o", "json", code=0).json["sources"]["rows"]
    assert sources
    assert all(row["license"] != "not stated" and row["proved"] >= 20 for row in sources)
    shown = desk.here("corpus", "show", "--device", "h200", "--model", "bert", "-o", "json", code=0).json
    rows = shown["published"]["rows"]
    assert rows
    assert {(row["benchmark"], row["device"]) for row in rows} == {("bert", "H200")}


def test_unsteady_points_are_shown_alone(desk: Desk):
    rows = desk.here("corpus", "show", "--unsteady", "-o", "json", code=0).json["published"]["rows"]
    assert 5 < len(rows) < 50
    assert all(row["farthest"] > 0.03 for row in rows)


def test_unknown_names_come_with_the_known_ones(desk: Desk):
    assert "'H200'?" in desk.here("corpus", "show", "--device", "H20", code=2).err
    assert "together" in desk.here("corpus", "show", "--model", "bert", "--workers", "7", code=2).err


def test_a_corpus_of_one_s_own_grows_and_is_compared_with(desk: Desk, published: Path):
    missing = desk.here("corpus", "add", "own.corpus", SESSIONS, code=2)
    assert "--submitter" in missing.err
    assert not (desk.folder / "own.corpus").exists()
    desk.here("corpus", "add", "own.corpus", SESSIONS, "--submitter", "our-cluster", code=0)
    desk.here("corpus", "add", "own.corpus", published, code=0)
    again = desk.here("corpus", "add", "own.corpus", published, "-o", "json", code=0).json
    assert [row["points"] for row in again["sources"]["rows"]] == [4, 6]
    assert len(read_corpus(desk.folder / "own.corpus").points) == 10
    tree = desk.here("compare", SESSIONS, "--with", "own.corpus", "-o", "json", code=0).json
    assert {row["systems"] for row in tree["standing"]["rows"] if row["workers"] == 1} == {10}


def test_without_a_collection_what_needs_one_says_so(monkeypatch: pytest.MonkeyPatch):
    none: Registry[FunctionType] = Registry("scalecurve.no_results", "collection of results", FunctionType, {})
    monkeypatch.setattr(analyses, "PUBLISHED", none)
    compared = CliRunner().invoke(cli, ["compare", str(SESSIONS), "--with", "corpus"])
    assert (compared.exit_code, compared.stderr) == (
        3,
        "scalecurve: --with: no collection of published results is installed\n",
    )


@pytest.mark.parametrize(
    ("typed", "said"),
    [("nosuch", "--with: got 'nosuch'; expected 'corpus'"), ("corpsu", "did you mean 'corpus'?")],
)
def test_a_collection_that_is_not_known_is_one_line(typed: str, said: str):
    compared = CliRunner().invoke(cli, ["compare", str(SESSIONS), "--with", typed])
    assert compared.exit_code in (2, 3)
    assert said in compared.stderr
    assert compared.stderr.count("\n") == 1
