"""Manifests of features: this project's, and those of other packages."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalecurve_api import features as manifests
from scalecurve_api.registry import FEATURES, Feature, Registry, installed_features, own_features

OURS = own_features()
GROUP = "scalecurve.test_words"
MANIFEST = f"""
from scalecurve_api.registry import Feature
FEATURE = Feature("far", "Say far.", {{"{GROUP}": {{"far": "far_away:WORD", "half": "far_away:WORD"}}}}, order=0)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    installed_features.cache_clear()
    yield tmp_path
    installed_features.cache_clear()
    for name in set(sys.modules) - before:
        del sys.modules[name]


def install(site: Path, manifest: str) -> None:
    (site / "far_manifest.py").write_text(manifest)
    (site / "far_away.py").write_text("WORD = 'far'\n")
    folder = site / "far_away-1.5.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: far-away\nVersion: 1.5\n")
    (folder / "entry_points.txt").write_text(f"[{FEATURES}]\nfar = far_manifest:FEATURE\n")


def test_every_manifest_is_found_by_its_name() -> None:
    assert {each.name for each in OURS} == {
        path.parent.name for path in Path(manifests.__file__).parent.glob("*/__init__.py")
    }


@pytest.mark.parametrize("each", OURS, ids=lambda each: each.name)
def test_a_manifest_is_plain_text(each: Feature) -> None:
    path = Path(manifests.__file__).with_name(each.name) / "__init__.py"
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
        ("FEATURE = 'text'", "is no feature: expected scalecurve_api.registry.Feature, got 'text'"),
    ],
)
def test_a_broken_manifest_is_named_and_spares_the_others(site: Path, manifest: str, problem: str) -> None:
    install(site, manifest)
    with pytest.warns(UserWarning, match=f"entry point scalecurve.features:far = far_manifest:FEATURE {problem}"):
        assert installed_features() == ()
    assert own_features() == OURS
