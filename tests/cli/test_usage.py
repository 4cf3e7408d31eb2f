"""The door itself: help, version, unknown words, readers that go away, disks that are full, Ctrl-C."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from fcntl import ioctl
from importlib.metadata import version
from pathlib import Path
from termios import FIONREAD

import click
import pytest

from scalecurve.cli import cli
from tests.waiting import PATIENCE_S, eventually

from .conftest import SCALECURVE, Desk, Ran, check


def test_help_lists_every_verb_and_the_exit_codes(desk: Desk):
    out = desk("--help", code=0).out
    assert all(f"\n  {verb} " in out for verb in ("validate", "plan", "run", "status", "report", "compare", "doctor"))
    assert "130 interrupted" in out
    assert "Usage: scalecurve [OPTIONS] VERB" in out
    assert desk("-h", code=0).out == out
    assert desk("--version", code=0).out == f"scalecurve {version('scalecurve')}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plna", "x.yaml"], "no verb 'plna'; did you mean 'plan'"),
        (["Validate"], "did you mean 'validate'"),
        (["frobnicate"], "no verb 'frobnicate'; expected one of validate, plan"),
        (["\x1b[31mplan"], "no verb '\\x1b[31mplan'"),
        (["--frobnicate"], "no such option --"),
        (["validate"], "expected FILE..., which is missing"),
        (["plan"], "expected FILE, which is missing"),
        (["status", "--bogus", "x"], "no such option --"),
        (["status", "x", "-o", "xml"], "--output: got 'xml'; expected one of 'table', 'json'"),
        (["compare", "one"], "AFTER: missing; expected a second bundle"),
        (["plan", "x.yaml", "--step-time", "nan"], "nan is not a finite number"),
        (["plan", "x.yaml", "--step-time", "inf"], "--step-time: got inf; expected"),
        (["plan", "x.yaml", "--startup", "-1"], "--startup: got -1; expected 0 to"),
        (["compare", "a", "b", "--threshold", "nan"], "nan is not a finite number"),
        (["cost", "a", "--per-worker-hour", "many"], "--per-worker-hour: got 'many'; expected a number"),
        (["run", "x.yaml", "--metrics-port", "70000"], "--metrics-port: got 70000; expected 0 to 65535"),
        (["predict", "frobnicate"], "no such experiment, bundle, points file or model"),
    ],
)
def test_what_is_not_understood_is_said_and_exits_with_2(desk: Desk, words: list[str], said: str):
    ran = desk.here(*words, code=2)
    assert said in ran.err
    assert ran.out == ""
    assert ran.err.count("\n") == 1


def leaves(command: click.Command, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that lead to it."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from leaves(inner, *words, name)
    yield words, command


SINGLE = [
    (*words, max(option.opts, key=len), *(["1"] * option.nargs))
    for words, command in leaves(cli)
    for option in command.params
    if isinstance(option, click.Option) and words and not (option.multiple or option.is_flag or option.count)
]


@pytest.mark.parametrize("typed", SINGLE, ids=" ".join)
def test_an_option_of_one_value_is_given_once(desk: Desk, typed: tuple[str, ...]):
    at = next(index for index, word in enumerate(typed) if word.startswith("-"))
    words = [*typed, *typed[at:]]
    ran = desk.here(*words, code=2)
    assert f"{typed[at]}: expected once, got 2 times" in ran.err
    assert ran.out == ""


def test_flags_and_options_of_several_values_may_be_repeated(desk: Desk):
    ran = desk.here("cost", "nowhere", "--label", "a", "--label", "b", "--include-unproved", "--include-unproved")
    assert "expected once" not in ran.err


def test_an_unknown_verb_as_a_process(desk: Desk):
    ran = desk("plna", "x.yaml", code=2)
    assert "no verb 'plna'; did you mean 'plan'" in ran.err


def test_predict_shows_its_models_also_when_there_are_none(desk: Desk):
    assert "Models:" in desk.here("predict", "--help", code=0).out


@pytest.mark.parametrize("words", [["plan", "long.yaml", "-o", "json"], ["plan", "long.yaml"], ["--help"]])
def test_a_reader_that_goes_away_sees_no_traceback(desk: Desk, words: list[str]):
    desk.write("long.yaml", measure={"repetitions": 1000})
    process = desk.begin(*words)
    line = process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    check(Ran(str(words), process.wait(PATIENCE_S), line, err))


@pytest.mark.parametrize("words", [["--help"], ["plan", "experiment.yaml"], ["plan", "experiment.yaml", "-o", "csv"]])
def test_a_full_disk_behind_the_output_is_said(desk: Desk, words: list[str]):
    desk.write()
    with Path("/dev/full").open("w") as full:
        process = desk.begin(*words, stdout=full)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (3, "scalecurve: No space left on device\n")


def test_terminals_that_lack_a_character_are_shown_its_code(desk: Desk, bundle: Path):
    latin = desk("compare", bundle, bundle, environment={"PYTHONIOENCODING": "latin-1"}, code=0)
    assert "finished \\u2192 finished#2" in latin.out
    old = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert "finished → finished#2" in desk("compare", bundle, bundle, environment=old, code=0).out


def test_an_empty_environment_is_enough(desk: Desk, bundle: Path):
    done = subprocess.run(
        [SCALECURVE, "status", bundle], env={}, cwd="/", capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 of 4 trials done" in done.stdout


def test_a_path_that_the_system_refuses_is_bad_input(desk: Desk):
    for verb in ("status", "report", "diagnose"):
        ran = desk.here(verb, "a" * 300)
        assert ran.code in (2, 3)
        assert "a" * 300 in ran.err
    assert "File name too long" in desk.here("validate", "a" * 300, code=2).out


def test_ctrl_c_ends_a_reading_verb_with_130(desk: Desk):
    """A fifo whose writer says nothing stands for work that takes long."""
    fifo = desk.folder / "fifo.yaml"
    os.mkfifo(fifo)
    process = desk.begin("validate", "fifo.yaml")
    writer = eventually(lambda: writing_end(fifo), "a reader")
    # Once it has taken this it only reads, and so sleeps in the kernel until more comes.
    os.write(writer, b"#")
    eventually(lambda: unread(writer) == 0, "the first byte to be read")
    eventually(lambda: asleep(process.pid), "a further read")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    os.close(writer)
    assert (process.returncode, out, err) == (130, "", "scalecurve: interrupted\n")


def writing_end(fifo: Path) -> int | None:
    """Open for writing, which the system refuses until somebody reads: an interrupt during an import may be lost."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def unread(pipe: int) -> int:
    """How many bytes wait in a pipe for its reader."""
    (count,) = struct.unpack("i", ioctl(pipe, FIONREAD, bytes(4)))
    return int(count)


def asleep(pid: int) -> bool:
    """Whether the process sleeps in the kernel."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
