"""One table says where the project lives, and everything that names a place agrees with it."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tools.release import check, dist, dry_run

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PLACES = PYPROJECT["tool"]["scalecurve"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def tracked() -> Iterator[tuple[str, str]]:
    """Path and text of every tracked text file that people or programs read today."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    for name in filter(None, listed):
        if name.startswith(("docs/evidence/", "tests/")) or not (ROOT / name).is_file():
            continue
        try:
            yield name, (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


TEXTS = dict(tracked())


def mentions(pattern: str) -> set[tuple[str, str]]:
    return {(name, match[0]) for name, text in TEXTS.items() for match in re.finditer(pattern, text)}


def test_metadata_points_at_the_repository():
    urls = PYPROJECT["project"]["urls"]
    assert urls.pop("Documentation") == PLACES["documentation"]
    assert all(url.startswith(PLACES["repository"]) for url in urls.values())


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        (r"https://github\.com/scalecurve(/[\w.-]+)?", "repository"),
        (r"https://[\w.-]+\.(github\.io|readthedocs\.io)/scalecurve", "documentation"),
        (r"(?<!oci://)(?<![\w.])\w+\.\w+/scalecurve(?=/(operator|worker))", "registry"),
        (r"(?<=\")\w+\.\w+/scalecurve(?=\")", "registry"),
        (r"oci://[\w.$/-]+/scalecurve\b", "chart"),
    ],
)
def test_places_are_named_as_in_the_table(pattern: str, place: str):
    found = mentions(pattern) - mentions(r"registry\.example/scalecurve")
    assert {name for name, _ in found}, f"nothing matches {pattern}"
    assert {(name, text) for name, text in found if text != PLACES[place]} == set()


@pytest.mark.skipif(PLACES["published"], reason="the project is published: users install releases")
def test_nothing_tells_users_to_install_what_is_not_there():
    installs = (
        r"pip install (-\S+ )*['\"\\]*scalecurve\b(?!/)[^\n]*",
        r"helm (install|upgrade|pull)[^\n]*oci://[^\n]*",
        r"(docker|podman) pull [^\n]*",
        r"helm repo add [^\n]*",
    )
    assert {found for pattern in installs for found in mentions(pattern)} == set()


@pytest.mark.parametrize(
    ("page", "notice"),
    [
        ("README.md", "Nothing is released yet"),
        ("charts/scalecurve/README.md", "The chart is not published yet"),
        ("docs/how-to/install.md", "Nothing is published yet"),
        ("docs/how-to/building-images.md", "No image is published yet"),
        ("charts/scalecurve/templates/NOTES.txt", "is not published yet"),
    ],
)
def test_pages_say_that_nothing_is_published_until_it_is(page: str, notice: str):
    assert (notice in TEXTS[page]) == (not PLACES["published"])


def test_readme_builds_before_it_installs():
    readme = TEXTS["README.md"]
    first = readme.index("git clone")
    assert 0 < first < readme.index("pip install .\n") < readme.index("make quickstart") < readme.index("helm install")


def test_all_files_name_one_version():
    assert set(check.versions(ROOT).values()) == {PYPROJECT["project"]["version"]}


def test_a_release_that_is_not_ready_is_refused():
    refusals = list(check.problems(ROOT, "v9.9.9"))
    assert "pyproject.toml: 0.1.0, and the tag is v9.9.9" in refusals
    assert any(text.startswith("CHANGELOG.md: no section for 9.9.9") for text in refusals)
    assert [text for text in refusals if "published is false" in text] or PLACES["published"]
    assert next(check.problems(ROOT, "1.0")) == "1.0: expected a tag like v1.2.3"


def test_a_release_that_is_ready_passes(tmp_path: Path):
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "charts/scalecurve").mkdir(parents=True)
    for name in ("pyproject.toml", "CITATION.cff", "charts/scalecurve/Chart.yaml"):
        text = (ROOT / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("published = false", "published = true"), encoding="utf-8")
    version = PYPROJECT["project"]["version"]
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version} (2027-01-01)\n", encoding="utf-8")
    assert list(check.problems(tmp_path, f"v{version}")) == []
    (tmp_path / "changelog.d/7.feature.md").write_text("More.", encoding="utf-8")
    assert list(check.problems(tmp_path, f"v{version}")) == ["changelog.d/7.feature.md: not in CHANGELOG.md yet"]


def test_changelog_fragments_have_names_that_towncrier_reads():
    kinds = "|".join(kind["directory"] for kind in PYPROJECT["tool"]["towncrier"]["type"])
    for path in (ROOT / "changelog.d").iterdir():
        assert path.name == "README.md" or re.fullmatch(rf"(\d+|\+[\w-]+)\.({kinds})\.md", path.name), path.name


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned(workflow: Path):
    """By commit, with the version beside it, which dependabot keeps in step."""
    for line in workflow.read_text(encoding="utf-8").splitlines():
        if action := re.search(r"uses: (?!\./)(.*)", line):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action[1]), line


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_take_no_more_permissions_than_they_need(workflow: Path):
    assert yaml.safe_load(workflow.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}


def test_dependabot_watches_folders_that_exist():
    for update in yaml.safe_load((ROOT / ".github/dependabot.yml").read_text(encoding="utf-8"))["updates"]:
        for folder in update.get("directories", [update.get("directory")]):
            assert folder == "/" or list(ROOT.glob(folder.lstrip("/"))), folder


def test_all_images_are_built_on_one_base():
    """The images workflow resolves it to a digest once."""
    bases = {
        name: re.findall(r"^ARG BASE=(.*)$", text, flags=re.MULTILINE)
        for name, text in TEXTS.items()
        if name.endswith("/Containerfile")
    }
    assert bases
    assert len({tuple(base) for base in bases.values()}) == 1, bases


def test_workflows_call_make_targets_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", TEXTS["Makefile"], flags=re.MULTILINE))
    called = {name for path in WORKFLOWS for name in re.findall(r"\bmake ([a-z-]+)", path.read_text(encoding="utf-8"))}
    assert called >= {"check", "test", "docs", "dist"}
    assert called <= targets


def test_the_dry_run_asks_for_every_package_of_the_wheel():
    packages = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert sorted(dry_run.PACKAGES) == sorted(Path(package).name for package in packages)


def test_digests_are_what_sha256sum_checks(tmp_path: Path):
    (tmp_path / "b.txt").write_text("more")
    (tmp_path / "a.txt").write_text("text")
    dist.digests(tmp_path)
    dist.digests(tmp_path)
    assert [line.split()[1] for line in (tmp_path / "SHA256SUMS").read_text().splitlines()] == ["a.txt", "b.txt"]
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True)
