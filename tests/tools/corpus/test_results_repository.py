"""The same files from a checkout and a bare repository, with what the repository says of itself."""

from pathlib import Path

import pytest

from scalecurve_corpus.schema import NOT_STATED, CorpusError
from tests.tools.corpus.synthetic_round import APACHE, committed, logs, write_bare, write_checkout
from tools.corpus.results_repository import files, origin, spdx_id

FILES = {**logs(), "LICENSE.md": APACHE, "README.md": b"hello", "Acme/benchmarks/bert/run.py": b"x"}


@pytest.mark.parametrize("write", [write_checkout, write_bare])
def test_the_selected_files_of_the_last_commit(write: object, tmp_path: Path) -> None:
    assert callable(write)
    path = write(tmp_path / "round", FILES)
    (tmp_path / "round" / "later.txt").write_text("not committed")
    assert dict(files(path, lambda name: name != "README.md")) == {
        name: data for name, data in FILES.items() if name != "README.md"
    }


def test_links_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").symlink_to("/etc/passwd")
    assert dict(files(committed(tmp_path), lambda name: True)) == {"a.txt": b"a"}


def test_the_origin_is_the_round_in_the_path_with_its_commit_and_license(tmp_path: Path) -> None:
    known = origin(write_bare(tmp_path / "training_results_v9.1", FILES))
    assert (known.name, known.url) == ("mlperf-9.1", "https://github.com/mlcommons/training_results_v9.1")
    assert known.license == "Apache-2.0"
    assert len(known.revision.partition("commit ")[2]) == 40
    other = origin(write_checkout(tmp_path / "lab", {"a.txt": b""}))
    assert (other.name, other.url, other.license) == ("lab", NOT_STATED, NOT_STATED)


def test_a_license_is_known_by_its_words() -> None:
    assert [spdx_id(text) for text in (b"MIT  License\n", b"mine")] == ["MIT", NOT_STATED]


def test_objects_that_a_clone_does_not_have_are_named(tmp_path: Path) -> None:
    bare = write_bare(tmp_path / "bare", FILES)
    loose = [*(bare / "objects").glob("??/*")]
    assert loose, "a clone of a small repository on one disk keeps loose objects"
    max(loose, key=lambda path: path.stat().st_size).unlink()
    found = dict(files(bare, lambda name: True))
    assert set(found) == set(FILES)
    assert [data for data in found.values()].count(None) == 1


def test_what_is_no_repository_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    for path in (tmp_path / "a.txt", tmp_path / "missing", tmp_path):
        with pytest.raises(CorpusError) as caught:
            list(files(path, lambda name: True))
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
