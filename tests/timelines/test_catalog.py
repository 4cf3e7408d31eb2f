"""The catalog: unchanged bundles are not read again, what is gone is forgotten, nobody else's file is touched."""

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from scalecurve.bundle.pack import pack
from scalecurve_timelines import catalog as module
from scalecurve_timelines.catalog import contents, default_catalog
from tests.timelines.past import write_past


@pytest.fixture
def past(tmp_path: Path) -> Path:
    write_past(tmp_path / "past", 2, repetitions=1)
    return tmp_path / "past"


def test_unchanged_bundles_are_not_read_again(past: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pack(past / "nightly-000", past / "deep" / "er.zip")
    file = tmp_path / "catalog" / "history.sqlite"
    first = contents([past], file)
    assert (first.read, first.known) == (3, 0)
    monkeypatch.setattr(module, "open_bundle", lambda path: pytest.fail(f"{path} was read again"))
    again = contents([past], file)
    assert (again.read, again.known) == (0, 3)
    assert again.sources == first.sources
    assert [source.name for source in again.sources] == ["deep/er.zip", "nightly-000", "nightly-001"]


def test_changed_and_deleted_bundles_are_noticed(past: Path, tmp_path: Path):
    file = tmp_path / "history.sqlite"
    contents([past], file)
    trial = next((past / "nightly-000" / "trials").iterdir())
    shutil.rmtree(trial)
    changed = contents([past], file)
    assert (changed.read, changed.known) == (1, 1)
    shutil.rmtree(past / "nightly-001")
    assert len(contents([past], file).sources) == 1
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT count(*) FROM bundle").fetchone() == (1,)
        assert database.execute("SELECT count(DISTINCT path) FROM point").fetchone() == (1,)


def test_what_is_no_bundle_is_named_once(past: Path, tmp_path: Path):
    shutil.make_archive(str(past / "other"), "zip", past / "nightly-000")
    file = tmp_path / "history.sqlite"
    first = contents([past], file)
    assert [name for name, _ in first.unusable] == ["other.zip"]
    again = contents([past], file)
    assert again.unusable == first.unusable
    assert again.read == 0
    assert str(past) not in again.unusable[0][1]


def test_a_catalog_of_another_version_is_started_anew(past: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "history.sqlite"
    contents([past], file)
    monkeypatch.setattr(module, "VERSION", 2)
    assert contents([past], file).read == 2
    file.write_bytes(file.read_bytes()[:100] + b"damaged" * 100)
    assert contents([past], file).read == 2


def test_another_file_is_not_overwritten(past: Path, tmp_path: Path):
    file = tmp_path / "thesis.txt"
    file.write_text("two years of work " * 100)
    with pytest.raises(OSError, match="not a catalog"):
        contents([past], file)
    assert file.read_text().startswith("two years")
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE accounts (owner TEXT)")
    with pytest.raises(OSError, match="not a catalog"):
        contents([past], other)
    damaged = other.read_bytes()[:100] + b"damaged" * 100
    other.write_bytes(damaged)
    with pytest.raises(OSError, match="not a catalog"):
        contents([past], other)
    assert other.read_bytes() == damaged


def test_a_pipe_is_not_waited_for(past: Path):
    os.mkfifo(past / "pipe.zip")
    assert [name for name, _ in contents([past]).unusable] in ([], ["pipe.zip"])


def test_links_are_not_followed(past: Path, tmp_path: Path):
    write_past(tmp_path / "elsewhere", 1, name="secret", repetitions=1)
    os.symlink(tmp_path / "elsewhere", past / "link")
    pack(tmp_path / "elsewhere" / "secret-000", tmp_path / "secret.zip")
    os.symlink(tmp_path / "secret.zip", past / "link.zip")
    assert {source.reading.label for source in contents([past]).sources} == {"nightly"}


def test_the_default_is_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("SCALECURVE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_catalog() == tmp_path / "scalecurve" / "history.sqlite"
    monkeypatch.setenv("SCALECURVE_CACHE", str(tmp_path / "mine"))
    assert default_catalog() == tmp_path / "mine" / "history.sqlite"
