"""``scalecurve demo``: what is shipped, shown without a GPU."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scalecurve.cli import cli, demo
from tools import ROOT


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was told to open."""
    addresses: list[str] = []
    monkeypatch.setattr("webbrowser.open", addresses.append)
    monkeypatch.setattr(demo, "has_display", lambda: True)
    return addresses


def run(*words: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["demo", *map(str, words)], prog_name="scalecurve")
    assert result.exit_code == code, result.output
    return result


def test_it_writes_a_bundle_and_its_report_and_opens_it(tmp_path: Path, opened: list[str]) -> None:
    shown = run("--into", tmp_path).output
    page, bundle = tmp_path / "demo/report/report.html", tmp_path / "demo/resnet50-h200.zip"
    assert opened == [page.as_uri()]
    assert f"report: {page}" in shown
    assert "resnet50" in page.read_text(encoding="utf-8")
    assert bundle.read_bytes() == (ROOT / "docs/evidence/h200/resnet50.zip").read_bytes()
    for row in ("strong        1", "weak          4"):
        assert row in shown
    again = run("--into", tmp_path, "--no-browser").output
    assert again == shown
    assert len(opened) == 1


def test_without_a_display_the_path_is_printed(
    tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "has_display", lambda: False)
    assert "report.html" in run("--into", tmp_path).output
    assert opened == []


def test_a_folder_that_cannot_be_written(tmp_path: Path, opened: list[str]) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in run("--into", tmp_path / "file", code=3).output
    assert opened == []


def test_live_is_the_quickstart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[Path] = []
    monkeypatch.setattr(demo.quickstart, "callback", lambda into, **_: began.append(into))
    run("--live", "--into", tmp_path)
    assert began == [tmp_path]
    assert not (tmp_path / "demo").exists()
