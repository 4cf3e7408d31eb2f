"""Nothing heavy is imported before it is needed, and every verb has its function."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

import scalecurve
from scalecurve.cli import cli
from scalecurve.cli.verbs import verbs

HEAVY = {"pandas", "numpy", "scipy", "torch", "kubernetes", "kopf", "matplotlib", "pyarrow", "pydantic", "rich", "yaml"}

GROUPS = ("corpus", "experiment", "network", "predict")
# Quickstart is two runs and a report, each with its own function; doctor looks at this machine and makes no numbers;
# probe only tells nodes apart.
WITHOUT = ("demo", "quickstart", "doctor", "probe", "import", "experiment", "corpus")  # a keyword, groups, a package
OWN = [name for name, verb in verbs().items() if not verb.place.startswith("scalecurve_models") and name not in WITHOUT]


def loaded(program: str) -> set[str]:
    """The top-level modules that a new interpreter holds after the program."""
    code = (
        f"import sys\ntry:\n    {program}\nexcept SystemExit: pass\nimport json; print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize(
    "program",
    [
        "import scalecurve",
        "import scalecurve.cli; scalecurve.cli.main(['--help'])",
        "import scalecurve.cli; scalecurve.cli.main(['--version'])",
        "import scalecurve.cli; scalecurve.cli.main(['frobnicate'])",
        "import scalecurve.cli; scalecurve.cli.main(['validate', '--help'])",
    ],
)
def test_the_first_touch_is_light(program: str):
    assert not loaded(program) & HEAVY


@pytest.mark.parametrize(
    ("program", "without"),
    [
        (
            "import scalecurve_api.validation.validate",
            {"numpy", "pandas", "pyarrow", "torch", "kubernetes", "click", "rich"},
        ),
        ("from scalecurve.cli.verbs import verbs; [v.command() for v in verbs().values()]", HEAVY - {"pydantic"}),
        ("import scalecurve_worker", {"numpy", "pandas", "pyarrow", "torch", "kubernetes", "click", "rich"}),
        ("import scalecurve_local", {"numpy", "pandas", "pyarrow", "torch", "kubernetes", "click", "rich"}),
        ("import scalecurve.checks.validation", {"numpy", "pandas", "pyarrow", "torch", "kubernetes", "click", "rich"}),
        ("import scalecurve.curves.progress", {"pandas", "matplotlib", "torch", "kubernetes", "click", "rich"}),
        ("import scalecurve.reporting", {"torch", "kubernetes", "click", "rich"}),
    ],
)
def test_rooms_load_what_they_need_and_no_more(program: str, without: set[str]):
    assert not loaded(program) & without


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_has_its_command_and_its_help(verb: str):
    command = verbs()[verb].command()
    assert isinstance(command, click.Command)
    assert command.name == verb
    shown = CliRunner().invoke(cli, [verb, "--help"], prog_name="scalecurve")
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith(f"Usage: scalecurve {verb} ")
    assert "-h, --help" in shown.output
    assert len(verbs()[verb].help) <= 80
    assert isinstance(command, click.Group) == (verb in GROUPS)


@pytest.mark.parametrize("group", [name for name in GROUPS if name in verbs()])
def test_every_verb_of_a_group_has_its_help(group: str):
    command = verbs()[group].command()
    for name in command.list_commands(click.Context(command)):
        shown = CliRunner().invoke(cli, [group, name, "--help"], prog_name="scalecurve")
        assert shown.exit_code == 0, shown.output
        assert shown.output.startswith(f"Usage: scalecurve {group} {name} ")


def test_the_package_offers_its_version_and_its_functions():
    assert scalecurve.__version__
    assert {name for name in dir(scalecurve) if not name.startswith("_")} >= set(OWN)
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        scalecurve.frobnicate  # noqa: B018


def test_a_function_of_a_package_that_is_missing_names_the_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(scalecurve._MODULES, "gate", "scalecurve_absent.gate")
    with pytest.raises(ImportError, match=r"^scalecurve\.gate needs the package scalecurve_absent, which is not inst"):
        scalecurve.gate  # noqa: B018


def test_help_lists_verbs_of_features_beside_those_of_the_core():
    names = list(verbs())
    for expected in (["compare", "corpus", "history", "gate", "explain"], ["pull", "import", "pack"]):
        present = [name for name in expected if name in names]
        assert names[names.index(expected[0]) :][: len(present)] == present


@pytest.mark.parametrize("verb", OWN)
def test_every_verb_has_a_python_function_of_its_name(verb: str):
    function = getattr(scalecurve, verb)
    assert inspect.isfunction(function)
    assert function.__doc__
    assert all(p.annotation is not p.empty for p in inspect.signature(function).parameters.values())
