"""Pages point only at what is there, and show only experiments that are right."""

import re
from pathlib import Path

import pytest

from scalebench_api.validate import validate_text

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if "bundle" not in str(path))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "`", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} points at {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_experiments_on_pages_are_right(page: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for block in blocks:
        if "kind: ScalingExperiment" in block:
            assert [str(problem) for problem in validate_text(block, page.name).problems] == []
