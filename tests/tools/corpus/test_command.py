"""`python -m tools.corpus`: repositories become one corpus; the table has rates, or why there are none."""

from pathlib import Path

import pytest

from scalecurve_corpus.corpus_file import read_corpus
from scalecurve_corpus.schema import NOT_STATED
from tests.tools.corpus.published_pages import TITAN, foundry, written
from tests.tools.corpus.synthetic_round import START, logs, write_bare, write_checkout
from tools.corpus.__main__ import main

FILES = {**logs(), **logs("16xH100", logged="throughput", figure=2.0, start=START + 9e6, runs=1)}


def test_a_repository_becomes_a_corpus_and_refused_units_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "a.corpus"
    assert main(["mlperf", str(write_bare(tmp_path / "round", FILES)), "--into", str(into)]) == 0
    assert [(point.system, point.unit) for point in read_corpus(into).points] == [
        ("16xH100", None),
        ("8xH100", "samples/s"),
    ]
    printed = capsys.readouterr().out
    assert "1 of 2" in printed
    assert "1 point: " in printed
    assert NOT_STATED in printed


def test_two_repositories_of_the_same_runs_keep_them_once(tmp_path: Path) -> None:
    paths = [str(write_checkout(tmp_path / name, logs())) for name in ("first", "second")]
    assert main(["mlperf", *paths, "--into", str(tmp_path / "a.corpus")]) == 0
    corpus = read_corpus(tmp_path / "a.corpus")
    assert [source.name for source in corpus.sources] == ["first", "second"]
    assert [point.aliases for point in corpus.points] == [("second:Acme/8xH100",)]


def test_what_is_no_repository_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mlperf", str(tmp_path / "missing"), "--into", str(tmp_path / "a.corpus")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "missing" in line
    assert not (tmp_path / "a.corpus").exists()


@pytest.mark.parametrize(
    ("publisher", "page", "points"), [("llm-foundry", foundry({}), 1), ("torchtitan-benchmarks", TITAN, 4)]
)
def test_tables_of_a_publisher_become_a_corpus(publisher: str, page: str, points: int, tmp_path: Path) -> None:
    path, into = written(tmp_path / "a.md", page.replace("{memory}", "80")), tmp_path / "a.corpus"
    assert main([publisher, str(path), "--into", str(into)]) == 0
    corpus = read_corpus(into)
    assert [source.name for source in corpus.sources] == [publisher]
    assert len(corpus.points) == points
