"""Nothing is left of the old name, and pages name only modules, files and headings that exist."""

import ast
import importlib.util
import re
import subprocess
import tomllib
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from scalecurve_api.registry import FEATURES, own_features

ROOT = Path(__file__).parents[1]
OLD_NAME = "scale" + "bench"
FOLDERS = "api|operator|worker|local|analysis|tools|tests|benchmarks|charts|manifests|images|docs|locks|changelog.d"
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("charts/**/*.md")]
    if path.name != "CHANGELOG.md"
)
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def test_the_old_name_is_in_the_changelog_alone():
    assert set(git("grep", "-il", OLD_NAME)) <= {"CHANGELOG.md"}
    assert [name for name in git("ls-files") if OLD_NAME in name.lower()] == []


PLUGINS = tomllib.loads((ROOT / "tests/plugin_package/pyproject.toml").read_text(encoding="utf-8"))
ENTRY_POINT_GROUPS = {FEATURES} | {group for feature in own_features() for group in feature.adds}
ENTRY_POINT_GROUPS |= PLUGINS["project"]["entry-points"].keys()


@EVERY_PAGE
def test_modules_on_pages_exist(page: Path):
    blocks = re.split(r"^```.*$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = "\n".join(block for block in blocks if "import scalecurve_worker as scalecurve" not in block)
    names = set(re.findall(r"(?<![\w/.-])(scalecurve(?:_\w+)?(?:\.[a-z_]\w*)+)(?![\w/-])", text))
    names = {name for name in names if not name.startswith("scalecurve.dev")} - ENTRY_POINT_GROUPS
    # Scripts import the SDK under this name.
    sdk = {name: re.sub(r"^scalecurve\.", "scalecurve_worker.", name) for name in names}
    assert sorted(name for name in names if not resolves(name) and not resolves(sdk[name])) == []


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or something that a module defines or imports."""
    module, names = name, []
    while (source := source_of(module)) is None:
        module, _, last = module.rpartition(".")
        names.insert(0, last)
        if not module:
            return False
    return not names or names[0] in defined(source)


@cache
def source_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin else None


@cache
def defined(source: Path) -> frozenset[str]:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    return frozenset(_names(tree))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name):
                yield name
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
            case ast.Constant(value=str() as text):
                yield text  # a table of lazily imported names


MESSAGES = {
    "docs/how-to/building-images.md": [
        "SCALECURVE_TRIAL is not set",
        "no host file ",
        " slots for ",
        "world size is ",
        "for sshd",
        "where the workers meet",
        "cannot listen on port ",
        "mount an emptyDir of medium Memory",
        "which this image lacks",
        "this image has no user with ID ",
    ],
    "docs/how-to/troubleshooting.md": [
        "neither apiVersion nor kind",
        "cannot change once the experiment has started",
        "standing by: the lease ",
        "does not match the sha256 in trial.json",
        "RunnerMissing",
        "NameTaken",
    ],
    "docs/how-to/transfer.md": ["different architecture: ", " is of no layer"],
    "docs/explanation/cluster.md": ["this image's scalecurve ", " does not know "],
}


@pytest.mark.parametrize("page", MESSAGES)
def test_messages_on_pages_are_printed(page: str):
    """People look a message up by its words: whoever rewrites one rewrites its page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    code = "\n".join(path.read_text(encoding="utf-8") for path in product_modules())
    joined = re.sub(r"\"\s*\n\s*f?\"", "", code)  # adjacent literals
    assert [part for part in MESSAGES[page] if part not in text] == []
    assert [part for part in MESSAGES[page] if part not in joined] == []


def product_modules() -> list[Path]:
    return [path for folder in FOLDERS.split("|")[:5] for path in (ROOT / folder).rglob("*.py")]


@EVERY_PAGE
def test_files_on_pages_exist(page: Path):
    """Those named in backticks, from the root of the repository. Pages on adding something name what is added."""
    text = page.read_text(encoding="utf-8")
    paths = set(re.findall(rf"`((?:{FOLDERS})/[\w./-]*(?:\.[a-z]+|/))`", text))
    files = [ROOT / path for path in paths]
    added = page.name.startswith("add-a-")
    assert [file for file in files if not (file.parent if added else file).exists()] == []


@EVERY_PAGE
def test_links_lead_to_headings_that_exist(page: Path):
    text = re.sub(r"```.*?```|`[^`\n]*`", "`", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", text):
        if "://" not in target and anchor not in anchors((page.parent / target) if target else page):
            broken.append(f"{target}#{anchor}")
    assert broken == []


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that GitHub and the site give to a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return frozenset(_slug(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)) for heading in headings)


def _slug(heading: str) -> str:
    kept = (c for c in unicodedata.normalize("NFC", heading.lower()) if c.isalnum() or c in " -_")
    return "".join(kept).strip().replace(" ", "-")
