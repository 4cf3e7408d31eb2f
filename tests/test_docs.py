"""Pages point only at what is there, and show only experiments that are right."""

import re
import shlex
from pathlib import Path

import click
import pytest

from scalecurve.cli import cli
from scalecurve_api.validation.validate import validate_text
from scalecurve_models.cli.predict import PATH_COMMAND
from tests.page_commands import commands

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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_pages_exist(page: Path) -> None:
    """With their options. Whether they do what the page says is for its reader."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for command in commands(page.name, page.read_text(encoding="utf-8")):
        line = command.text.splitlines()[0].partition(" | ")[0]
        words = [word for word in shlex.split(line) if not re.match(r"[A-Z_]+=", word)]
        if words[0] == "make" and words[1:]:
            assert words[1].rstrip(";") in targets, f"{command.page}:{command.line}: {command.text}"
        if words[0] == "scalecurve":
            ours = words[: words.index("--")] if "--" in words else words  # a command of the user's own follows
            assert {word for word in ours if word.startswith("-")} <= options(ours[1:]), command


def options(words: list[str]) -> set[str]:
    """Options of the verb that these words begin with."""
    verb: click.Command = cli
    # With the settings of its own: a verb keeps the help option that it was first asked for.
    context = click.Context(verb, **cli.context_settings)
    while isinstance(verb, click.Group) and words and not words[0].startswith("-"):
        found = verb.get_command(context, words[0]) or verb.get_command(context, PATH_COMMAND)
        assert found is not None, f"no verb {words[0]}"
        verb, context, words = found, click.Context(found, parent=context, **found.context_settings), words[1:]
    return {name for each in verb.get_params(context) for name in (*each.opts, *each.secondary_opts)}


def test_commands_are_found_on_a_page() -> None:
    text = """Say `scalecurve status|cost BUNDLE`, or `scalecurve run`, or

    scalecurve predict paleo \\
        --batch 8     # a comment
    export KUBECONFIG=here
    no command

```yaml
scalecurve: 1
```
`make
test` is one, too.
"""
    found = [(each.line, each.text) for each in commands("page", text)]
    assert found == [
        (3, "scalecurve predict paleo --batch 8"),
        (4, "export KUBECONFIG=here"),
        (1, "scalecurve status BUNDLE"),
        (1, "scalecurve cost BUNDLE"),
        (11, "make test"),
    ]
