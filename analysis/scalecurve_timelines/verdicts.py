"""A gate's checks for whoever reads them: a table, a comment in Markdown, and JUnit's XML."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from scalecurve.render.formatting import interval
from scalecurve.render.table import Column, Table, markdown_text, one_line, table_of
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.text import count
from scalecurve_timelines.gate import CheckOutcome, Gate, GateCheck
from scalecurve_timelines.tables import relative

MOST_ROWS = 100
"""Of a comment: GitHub takes 65,536 characters."""
_LONGEST_DETAIL = 300


def gate_table(gate: Gate) -> Table:
    """Tabulate the checks, a row each, failed ones first."""
    return table_of(
        "gate",
        f"Gate of {gate.label}: {gate.verdict}",
        gate.checks,
        (
            (Column("outcome", "Outcome"), lambda check: check.outcome.value),
            (Column("check", "Check"), lambda check: check.kind),
            (Column("series", "Series"), lambda check: check.series or None),
            (Column("workers", "Workers", "count"), lambda check: check.workers),
            (Column("now", "Now", "number", "/s", interval=True), lambda check: check.now),
            (Column("reference", "Against", "number", "/s", interval=True), lambda check: check.reference),
            (Column("change", "Change", "percent", interval=True), _change),
            (Column("detail", "Detail"), lambda check: check.detail),
            (Column("decided_by", "Decided by", detail=True), lambda check: check.decided_by),
            (
                Column("detectable", "Smallest detectable", "percent", detail=True),
                lambda check: check.change.detectable if check.change else None,
            ),
        ),
        [*gate.notes, *_confirmation(gate)],
    )


def _confirmation(gate: Gate) -> list[str]:
    return (
        [f"Confirm or clear what failed once: {gate.fresh_session}; then this gate again"] if gate.unconfirmed else []
    )


def comment(gate: Gate) -> str:
    """Write Markdown for a pull request: the verdict, what failed, failed once or is undecided, and the rest folded."""
    sign = "❌" if gate.failed else "⚠️" if gate.unconfirmed or not gate.decided else "✅"
    lines = [f"### {sign} scalecurve gate: {markdown_text(gate.label)} {markdown_text(gate.verdict)}", ""]
    shown = [check for check in gate.checks if check.outcome is not CheckOutcome.PASSED]
    passed = gate.of(CheckOutcome.PASSED)
    if shown:
        lines += [*_rows(shown[:MOST_ROWS]), ""]
        if len(shown) > MOST_ROWS:
            lines += [f"{count(len(shown) - MOST_ROWS, 'more check')} of this kind.", ""]
    if passed:
        lines += [f"<details><summary>{count(len(passed), 'check')} passed</summary>", "", *_rows(passed[:MOST_ROWS])]
        lines += ["", "</details>", ""]
    lines += [f"- {markdown_text(note)}" for note in [*_confirmation(gate), *gate.notes[:20]]]
    return "\n".join(lines).rstrip("\n") + "\n"


def _rows(checks: Sequence[GateCheck]) -> list[str]:
    lines = [
        "| Outcome | Check | Point | Now | Against | Change | Detail |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
    ]
    for check in checks:
        change = _change(check)
        cells = (
            check.outcome.value,
            check.kind,
            check.where,
            interval(check.now) if check.now else "–",
            interval(check.reference) if check.reference else "–",
            interval(change, as_percent=True) if change else "–",
            check.detail[:_LONGEST_DETAIL],
        )
        lines.append("| " + " | ".join(markdown_text(cell) for cell in cells) + " |")
    return lines


def junit(gate: Gate) -> str:
    """Write JUnit's XML: a test case for each check; one undecided or failed once is skipped, with the reason."""
    root = ElementTree.Element("testsuites")
    counts = {outcome: len(gate.of(outcome)) for outcome in CheckOutcome}
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=one_line(f"scalecurve gate {gate.label}"),
        tests=str(len(gate.checks)),
        failures=str(counts[CheckOutcome.FAILED]),
        errors="0",
        skipped=str(counts[CheckOutcome.UNDECIDED] + counts[CheckOutcome.UNCONFIRMED]),
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("decided by", "; ".join(gate.decided_by)), ("false alarms", gate.false_alarms)):
        if value:
            ElementTree.SubElement(properties, "property", name=name, value=str(value))
    for check in gate.checks:
        name = one_line(f"{check.kind}: {check.where}")
        case = ElementTree.SubElement(suite, "testcase", classname=one_line(f"scalecurve.{gate.label}"), name=name)
        change = _change(check)
        text = one_line(check.detail + (f" ({interval(change, as_percent=True)})" if change else ""))
        if check.outcome is CheckOutcome.FAILED:
            ElementTree.SubElement(case, "failure", message=text).text = text
        elif check.outcome is CheckOutcome.UNCONFIRMED:
            ElementTree.SubElement(case, "skipped", message=f"failed once: {text}; {one_line(gate.fresh_session)}")
        elif check.outcome is CheckOutcome.UNDECIDED:
            ElementTree.SubElement(case, "skipped", message=text)
        else:
            ElementTree.SubElement(case, "system-out").text = text
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _change(check: GateCheck) -> Estimate | None:
    return relative(check.ratio) if check.ratio else None
