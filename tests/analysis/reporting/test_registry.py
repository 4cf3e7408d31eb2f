"""Packages add verbs, sections and plots by entry points; the core works with none, not even its own features."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scalecurve.reporting import compose, registry
from scalecurve.reporting.drawing import Drawing
from scalecurve.reporting.findings import Analysis
from tests.analysis.synthetic import Truth, experiment, write_bundle
from tests.waiting import PATIENCE_S

EXTENSION = Path(__file__).parents[1] / "extension"
ABSENT = """
import importlib.abc, importlib.metadata, pkgutil, sys
FEATURES = ('scalecurve.features', *(f'scalecurve_{name}' for name in ('corpus', 'importing', 'models', 'timelines')))
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith(FEATURES):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, Absent())
importlib.metadata.entry_points = lambda **_: ()  # before the registry takes it
modules = pkgutil.iter_modules
OWN = 'scalecurve_api.features.'
pkgutil.iter_modules = lambda *args: (each for each in modules(*args) if not each.name.startswith(OWN))
"""
MAIN = "from scalecurve.cli import main; main()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = experiment("ext", modes=["weak"], workers=[1, 2], repetitions=2, windows=2, steps_per_window=5)
    return write_bundle(tmp_path_factory.mktemp("ext") / "b", spec, Truth(), tables=False)


def scalecurve(code: str, *arguments: str | Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    entries = [*([str(path)] if path else []), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entries), "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_the_core_works_without_models_and_features(folder: Path, tmp_path: Path):
    shown = scalecurve(ABSENT + MAIN, "--help")
    assert shown.returncode == 0, shown.stderr
    assert "cost" in shown.stdout
    for verb in ("corpus", "fit", "gate", "import"):
        assert f"\n  {verb} " not in shown.stdout
        refused = scalecurve(ABSENT + MAIN, verb, folder)
        assert refused.returncode == 2
        assert f"no verb '{verb}'" in refused.stderr
    missing = scalecurve(ABSENT + "import scalecurve; scalecurve.gate")
    assert "ImportError: scalecurve.gate needs the package scalecurve_timelines" in missing.stderr
    compared = scalecurve(ABSENT + MAIN, "compare", folder, "--with", "corpus")
    assert (compared.returncode, compared.stderr) == (
        3,
        "scalecurve: --with: no collection of published results is installed\n",
    )
    published = scalecurve(ABSENT + MAIN, "report", folder, "--published", "curves.csv")
    assert published.returncode == 3
    assert "--published: unknown reader of stated curves 'csv'" in published.stderr
    written = scalecurve(ABSENT + MAIN, "report", folder, "--out", tmp_path, "--format", "md", "--format", "svg")
    assert written.returncode == 0, written.stderr
    page = (tmp_path / "report.md").read_text()
    assert "## Scaling" in page
    assert "Predicted" not in page
    assert (tmp_path / "plots" / "efficiency.svg").is_file()


def test_a_package_adds_a_verb_a_section_and_a_plot(folder: Path, tmp_path: Path):
    shown = scalecurve(MAIN, "--help", path=EXTENSION)
    assert re.search(r"weather +Show the weather\.", shown.stdout)
    assert scalecurve(MAIN, "weather", path=EXTENSION).stdout == "dry\n"
    formats = ("--format", "md", "--format", "json", "--format", "png")
    written = scalecurve(MAIN, "report", folder, "--out", tmp_path, *formats, path=EXTENSION)
    assert written.returncode == 0, written.stderr
    page = (tmp_path / "report.md").read_text()
    assert page.index("## Scaling") < page.index("## Weather") < page.index("## How the numbers were obtained")
    assert "![Weather](plots/weather.png)" in page
    assert "- It was dry." in page
    assert "- The weather was looked up." in page
    assert ", and dry" in page
    assert json.loads((tmp_path / "report.json").read_text())["answer"]["beside"] == "It was as dry as elsewhere."


def test_a_package_that_cannot_be_imported_is_named(tmp_path: Path):
    broken = tmp_path / "broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (broken / "entry_points.txt").write_text("[scalecurve.commands]\nbroken = no_such_module:VERBS\n")
    shown = scalecurve(MAIN, "--help", path=tmp_path)
    assert shown.returncode == 0
    assert (
        "scalecurve: entry point scalecurve.commands:broken = no_such_module:VERBS (broken 1.0) cannot be loaded"
        in shown.stderr
    )


def test_a_plot_of_a_section_that_does_not_exist_is_an_error(monkeypatch: pytest.MonkeyPatch):
    compose.all_plots()
    monkeypatch.setitem(registry.PLOTS, "typo", registry.PLOTS["cost"])
    del registry.PLOTS["typo"]

    @registry.plot("typo", section="scalling", order=1)
    def typo(analysis: Analysis) -> Drawing | None:
        return None

    with pytest.raises(ValueError, match=r"plot 'typo': no section 'scalling'; did you mean 'scaling'\? \(sections: "):
        compose.all_plots()


def test_a_name_is_registered_once():
    names = [source.name for source in compose.all_plots()]
    assert len(names) == len(set(names))
    with pytest.raises(ValueError, match="plot 'cost' is already registered"):
        registry.plot("cost", section="cost", order=1)(lambda analysis: None)
    with pytest.raises(ValueError, match="section 'cost' is already registered"):
        registry.section("cost", "Cost", order=1)(lambda analysis: registry.Body())
