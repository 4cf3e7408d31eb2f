import re
from pathlib import Path

from scalecurve_api.crds.reference import main, page
from scalecurve_api.crds.structural import structural_schema
from scalecurve_api.programs.workload import DeviceType
from scalecurve_api.spec.experiment import ExperimentSpec


def test_the_command_writes_the_same_page_again(tmp_path: Path) -> None:
    assert main([str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page()
    assert main([]) == 2


def test_every_field_of_the_spec_has_a_row() -> None:
    named = set(re.findall(r"^\| `([^`]+)`", page(), re.MULTILINE))
    pending = [structural_schema(ExperimentSpec)]
    while pending:
        schema = pending.pop()
        assert schema["properties"].keys() <= named
        children = [child.get("items", child) for child in schema["properties"].values()]
        pending += [child for child in children if "properties" in child]


def test_choices_defaults_and_bounds_are_told() -> None:
    text = page()
    assert " \\| ".join(f"`{name}`" for name in DeviceType) in text
    assert "| `deadlineSeconds` | integer, ≥ 1, ≤ 31,536,000 | `3600` |" in text
    assert "| `workers` | list of integer, ≥ 1, ≤ 65,536, at most 64 | required |" in text
    assert "`WrongPlacement`" in text


def test_a_cell_never_breaks_its_row() -> None:
    rows = [line for line in page().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
