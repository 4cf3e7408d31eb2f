"""`scalecurve import PUBLISHER`: its repositories become one corpus; the table has rates, or why there are none."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scalecurve.cli import cli
from scalecurve.corpus.corpus_file import read_corpus
from tests.analysis.corpus.published_pages import TITAN, foundry, written
from tests.analysis.corpus.synthetic_round import START, logs, write_bare, write_folder, write_zip

FILES = {**logs(), **logs("16xH100", logged="throughput", figure=2.0, start=START + 9e6, runs=1)}


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_a_repository_becomes_a_corpus_and_refused_units_are_counted(tmp_path: Path) -> None:
    result = run("import", "mlperf", write_bare(tmp_path / "round", FILES), "--into", tmp_path / "a.corpus")
    assert result.exit_code == 0, result.output
    assert [(point.system, point.unit) for point in read_corpus(tmp_path / "a.corpus").points] == [
        ("16xH100", None),
        ("8xH100", "samples/s"),
    ]
    assert "1 of 2" in result.output
    assert "1 point: " in result.output


@pytest.mark.parametrize("words", [["--format", "mlperf"], []])
def test_the_format_is_stated_or_detected(words: list[str], tmp_path: Path) -> None:
    root = write_folder(tmp_path / "round", FILES)
    assert run("import", root, *words, "--into", tmp_path / "a.corpus").exit_code == 0
    assert len(read_corpus(tmp_path / "a.corpus").points) == 2


def test_a_dry_run_writes_nothing_and_json_has_every_point(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "round.zip", FILES)
    result = run("import", "mlperf", path, "--into", tmp_path / "a.corpus", "--dry-run", "-o", "json")
    document = json.loads(result.stdout)
    assert (document["corpus"], document["runs"], len(document["published"]["rows"])) == (None, 4, 2)
    assert document["sources"][0]["license"] == "not stated"
    assert document["notes"]
    assert not (tmp_path / "a.corpus").exists()


def test_two_repositories_of_the_same_runs_keep_them_once(tmp_path: Path) -> None:
    paths = [write_folder(tmp_path / name, logs()) for name in ("first", "second")]
    assert run("import", "mlperf", *paths, "--into", tmp_path / "a.corpus").exit_code == 0
    corpus = read_corpus(tmp_path / "a.corpus")
    assert [source.name for source in corpus.sources] == ["first", "second"]
    assert [point.aliases for point in corpus.points] == [("second:Acme/8xH100",)]


def test_what_cannot_be_imported_is_refused_in_one_line(tmp_path: Path) -> None:
    root, into = write_folder(tmp_path / "round", FILES), tmp_path / "a.corpus"
    taken = tmp_path / "taken"
    taken.write_text("mine")
    refused = {
        "missing": run("import", "mlperf", tmp_path / "missing", "--into", into),
        "after it": run("import", "mlperf", "--into", into),
        "taken": run("import", "mlperf", root, "--into", taken),
        "--name": run("import", "mlperf", root, root, "--name", "a", "--into", into),
        "--set": run("import", "mlperf", root, "--set", "workers=8", "--into", into),
    }
    for word, result in refused.items():
        assert result.exit_code == 2
        assert word in result.output
        assert len(result.output.strip().splitlines()) == 1
    assert taken.read_text() == "mine"
    assert not into.exists()


@pytest.mark.parametrize(
    ("publisher", "page", "points"), [("llm-foundry", foundry({}), 1), ("torchtitan-benchmarks", TITAN, 4)]
)
@pytest.mark.parametrize("as_format", [True, False])
def test_tables_of_a_publisher_become_a_corpus(
    publisher: str, page: str, points: int, as_format: bool, tmp_path: Path
) -> None:
    path, into = written(tmp_path / "a.md", page.replace("{memory}", "80")), tmp_path / "a.corpus"
    words = [path, "--format", publisher] if as_format else [publisher, path]
    result = run("import", *words, "--into", into)
    assert result.exit_code == 0, result.output
    corpus = read_corpus(into)
    assert [source.name for source in corpus.sources] == [publisher]
    assert len(corpus.points) == points
