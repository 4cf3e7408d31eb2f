"""Refuse a release that is not ready: ``python tools/release/check.py v1.2.3``.

The tag, pyproject.toml, the chart and CITATION.cff name one version; CHANGELOG.md has it and no fragment is left; and
``[tool.scalecurve]`` says that the project is published. Standard library only: this runs before anything is installed.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def versions(root: Path) -> dict[str, str]:
    """The version that each file names."""
    chart = (root / "charts/scalecurve/Chart.yaml").read_text(encoding="utf-8")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    return {
        "pyproject.toml": str(_pyproject(root)["project"]["version"]),
        "Chart.yaml version": _field(chart, "version"),
        "Chart.yaml appVersion": _field(chart, "appVersion"),
        "CITATION.cff": _field(citation, "version"),
    }


def problems(root: Path, tag: str) -> Iterator[str]:
    """Why the tag cannot be released."""
    if not re.fullmatch(r"v\d+\.\d+\.\d+((a|b|rc)\d+)?", tag):
        yield f"{tag}: expected a tag like v1.2.3"
    version = tag.removeprefix("v")
    for place, named in versions(root).items():
        if named != version:
            yield f"{place}: {named}, and the tag is {tag}"
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)} \(\d", changelog, flags=re.MULTILINE):
        yield f"CHANGELOG.md: no section for {version} with a date; run towncrier build --version {version}"
    for fragment in sorted((root / "changelog.d").glob("*.*.md")):
        yield f"changelog.d/{fragment.name}: not in CHANGELOG.md yet"
    if not _pyproject(root)["tool"]["scalecurve"]["published"]:
        yield "pyproject.toml: [tool.scalecurve] published is false; set it once the places it names exist"


def _pyproject(root: Path) -> dict[str, dict[str, dict[str, object]]]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def _field(text: str, name: str) -> str:
    match = re.search(rf"^{name}: *(\S+)$", text, flags=re.MULTILINE)
    return match[1] if match else "missing"


def main(arguments: list[str]) -> int:
    """Exit code 0, 1 for a release that is not ready, 2 for bad arguments."""
    if len(arguments) != 1:
        print("usage: python tools/release/check.py TAG", file=sys.stderr)
        return 2
    refusals = list(problems(ROOT, arguments[0]))
    print("\n".join(refusals) or f"{arguments[0]} is ready", file=sys.stderr)
    return 1 if refusals else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
