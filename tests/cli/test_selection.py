"""``--search`` where nothing searches."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.cli import cli, selection
from scalecurve.cli.selection import Selector
from scalecurve_api.registry import Registry


@pytest.mark.parametrize("verb", ["run", "plan"])
def test_without_a_search_the_option_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verb: str):
    monkeypatch.setattr(selection, "_INSTALLED", Registry("scalecurve.no_selectors", "", Selector, {}))
    ended = CliRunner().invoke(cli, [verb, str(tmp_path / "e.yaml"), "--search"])
    assert (ended.exit_code, ended.stderr) == (3, "scalecurve: --search: no search is installed\n")
