"""What newcomers type wrong, over all verbs: one line each, which says what to do."""

import shlex
from pathlib import Path

import pytest

from .conftest import Desk
from .recorded_lines import cases


@pytest.fixture
def desk_of_mistakes(desk: Desk, bundle: Path) -> Desk:
    """A desk with an experiment, a bundle, and what is neither."""
    desk.write("mine.yaml")
    (desk.folder / "records").symlink_to(bundle)
    (desk.folder / "notes.txt").write_text("hello\n")
    (desk.folder / "points.csv").write_text("workers,throughput\n1,10\n2,19\n")
    (desk.folder / "empty").mkdir()
    return desk


@pytest.mark.parametrize(
    ("typed", "fragments"),
    cases("newcomer_mistakes.txt"),
)
def test_a_mistake_gets_one_line_that_helps(desk_of_mistakes: Desk, typed: str, fragments: list[str]) -> None:
    ran = desk_of_mistakes.here(*shlex.split(typed))
    assert ran.code in (2, 3)
    printed = ran.out + ran.err
    assert [fragment for fragment in fragments if fragment not in printed] == []
    assert printed.count("\n") == 1


def test_an_experiment_of_another_version_is_named_without_a_library_in_the_line(
    desk_of_mistakes: Desk, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    (old / "trials").mkdir(parents=True)
    text = (desk_of_mistakes.folder / "mine.yaml").read_text()
    (old / "experiment.yaml").write_text(text.replace("scalecurve.dev", "earlier.dev"))
    ran = desk_of_mistakes.here("run", "mine.yaml", "--bundle", old, "--resume", code=2)
    assert "apiVersion: expected 'scalecurve.dev/v1alpha1'" in ran.err
    assert "validation error" not in ran.err
    assert "pydantic" not in ran.err
