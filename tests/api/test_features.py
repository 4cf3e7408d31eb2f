"""Manifests of features: this project's, and those of other packages."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from scalecurve_api import features as manifests
from scalecurve_api.features import Feature, features
from scalecurve_api.registry import Registry

OURS = features(of_project=True)
GROUP = "scalecurve.test_words"
MANIFEST = f"""
from scalecurve_api.features import Feature
FEATURE = Feature("far", "Say far.", {{"{GROUP}": {{"far": "far_away:WORD", "half": "far_away:WORD"}}}}, order=0)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    features.cache_clear()
    yield tmp_path
    features.cache_clear()
    for name in set(sys.modules) - before:
        del sys.modules[name]


def install(site: Path, manifest: str) -> None:
    (site / "far_manifest.py").write_text(manifest)
    (site / "far_away.py").write_text("WORD = 'far'\n")
    folder = site / "far_away-1.5.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: far-away\nVersion: 1.5\n")
    (folder / "entry_points.txt").write_text(f"[{manifests.GROUP}]\nfar = far_manifest:FEATURE\n")


def test_every_manifest_of_the_project_is_registered_by_its_name() -> None:
    modules = {path.stem for path in Path(manifests.__file__).parent.glob("*.py")} - {"__init__"}
    points = {point.name for point in entry_points(group=manifests.GROUP) if point.value.startswith(manifests.PROJECT)}
    assert {each.name for each in OURS} == modules == points


@pytest.mark.parametrize("each", OURS, ids=lambda each: each.name)
def test_a_manifest_is_plain_text(each: Feature) -> None:
    path = Path(manifests.__file__).with_name(f"{each.name}.py")
    names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    assert names == {"FEATURE", "Feature"}


@pytest.mark.parametrize("each", OURS, ids=lambda each: each.name)
def test_every_entry_of_a_manifest_names_a_module_that_exists(each: Feature) -> None:
    targets = [target for entries in each.adds.values() for target in entries.values()]
    assert targets
    assert [target for target in targets if importlib.util.find_spec(target.partition(":")[0]) is None] == []


def test_a_registry_has_what_a_feature_of_another_package_adds(site: Path) -> None:
    install(site, MANIFEST)
    registry: Registry[str] = Registry(GROUP, "word", str, {"half": "half"})
    with pytest.warns(UserWarning, match="is ignored: word 'half' is the built-in one"):
        assert registry.names() == ("half", "far")
    assert "far_away" not in sys.modules, "not before it is looked up"
    assert registry.get("far") == "far"


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ("raise OSError('no disk')", "cannot be loaded: OSError: no disk"),
        ("FEATURE = 'text'", "is no feature: expected scalecurve_api.features.Feature, got 'text'"),
    ],
)
def test_a_broken_manifest_is_named_and_spares_the_others(site: Path, manifest: str, problem: str) -> None:
    install(site, manifest)
    with pytest.warns(UserWarning, match=f"entry point scalecurve.features:far = far_manifest:FEATURE {problem}"):
        assert features(of_project=False) == ()
    assert features(of_project=True) == OURS
