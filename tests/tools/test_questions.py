"""The page of questions: its rows as they are read, and what a row promises held against what was shown."""

import pytest

from tools import questions
from tools.questions import PAGE, STATES, Question, missing, read, shown

HEAD = "| # | question | command | where | state |\n|---|---|---|---|---|\n"
REPORT = "# Scaling of it\n\n![Step time over workers](plots/step-time.png)\n\n### Largest\n\n| Batch | Share (%) |\n"


def row(number: int, command: str, where: str = "*Scaling*", state: str = "in full") -> str:
    return f"| {number} | what? | {command} | {where} | {state} |\n"


def test_a_row_is_read() -> None:
    page = HEAD + row(1, "`scalecurve report a.zip`, and with `--flops`; `sh b.sh`", "*one*, **not**, (`two.png`) `x`")
    commands = ("scalecurve report a.zip", "sh b.sh")
    assert read(page) == [Question(1, commands, ("one", "two.png"), "in full", None)]


def test_the_same_and_after_are_understood() -> None:
    page = HEAD + row(3, "`sh a.sh`") + row(4, "the same, and `sh b.sh`") + row(5, "after two of 3: `sh c.sh`")
    _, same, after = read(page)
    assert (same.commands, same.after) == (("sh a.sh", "sh b.sh"), None)
    assert (after.commands, after.after) == (("sh c.sh",), 3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (row(7, "none"), "row 7: expected a command"),
        (row(7, "`sh a.sh`", state="in part"), "row 7: .* in full, small form, imported; got 'in part'"),
        ("| 7 | what? | `sh a.sh` | *here* |\n", "row 7: got 4 cells, expected 5"),
    ],
)
def test_a_wrong_row_is_named(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(HEAD + line)


@pytest.mark.parametrize(
    ("command", "runs"),
    [("scalecurve run a.yaml", True), ("make horovod", True), ("scalecurve report run.zip", False)],
)
def test_a_row_that_runs_an_experiment_is_known(command: str, runs: bool) -> None:
    assert Question(1, (command,), (), "in full", None).runs is runs


def test_what_is_not_shown_is_missing() -> None:
    names = ("step time over workers", "Largest", "Share", "Step", "Scaling")
    question = Question(1, (), names, "in full", None)
    assert list(missing(question, shown(REPORT))) == ["Step", "Scaling"]


def test_every_question_has_a_row_and_a_state() -> None:
    rows = read(PAGE.read_text(encoding="utf-8"))
    assert [row.number for row in rows] == list(range(1, 57))
    assert {row.state for row in rows} == set(STATES)


@pytest.mark.processes
def test_a_row_is_run_in_a_clone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    page = row(1, "`scalecurve network stack 3 3`", "*Receptive field*") + row(2, "`sh no.sh`", "*nothing*")
    monkeypatch.setattr(questions, "read", lambda _: read(page))
    assert questions.main([]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("s  in full")
    assert "exit code 2: sh no.sh: " in second
    assert second.endswith("not there: nothing")
