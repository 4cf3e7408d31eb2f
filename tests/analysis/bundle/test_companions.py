"""Files of features in a bundle: read, packed, and a problem where they cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalecurve.bundle import companions
from scalecurve.bundle.companions import BundleFile
from scalecurve.bundle.open import open_bundle
from scalecurve.bundle.pack import pack
from scalecurve.bundle.problem import FileError
from scalecurve_api.registry import Registry
from tests.analysis.synthetic import experiment, write_bundle


def number(data: bytes) -> int:
    try:
        return int(data)
    except ValueError as error:
        raise FileError("not a number") from error


NUMBER = BundleFile("number.txt", 8, number)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    registry: Registry[BundleFile[Any]] = Registry("scalecurve.no_files", "file", BundleFile, {"number": NUMBER})
    monkeypatch.setattr(companions, "_INSTALLED", registry)
    return write_bundle(tmp_path / "b", experiment(modes=["weak"], workers=[1]), tables=False)


def test_a_file_of_a_feature_is_read_and_packed(folder: Path, tmp_path: Path):
    assert open_bundle(folder).companion(NUMBER) is None
    (folder / "number.txt").write_text("7")
    pack(folder, tmp_path / "b.zip")
    for path in (folder, tmp_path / "b.zip"):
        assert open_bundle(path).companion(NUMBER) == 7
        assert not open_bundle(path).selected


@pytest.mark.parametrize(("text", "what"), [("seven", "not a number"), ("7" * 9, "has 9 bytes; the limit is 8")])
def test_one_that_cannot_be_used_is_a_problem(folder: Path, text: str, what: str):
    (folder / "number.txt").write_text(text)
    opened = open_bundle(folder)
    assert opened.companion(NUMBER) is None
    assert [str(problem) for problem in opened.problems] == [f"number.txt: {what}"]


def test_a_file_of_no_feature_is_left_out(folder: Path, tmp_path: Path):
    (folder / "search.json").write_text("{}")
    pack(folder, tmp_path / "b.zip")
    assert not open_bundle(folder).problems
    assert b"search.json" not in (tmp_path / "b.zip").read_bytes()
