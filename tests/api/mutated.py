"""Example experiments with things gone wrong in them: what people, editors and templates do to YAML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml
from hypothesis import strategies as st

EXPERIMENTS = Path(__file__).parents[2] / "manifests" / "experiments"
# One field a line, so that a line is a thing to break.
TEXTS = [
    yaml.safe_dump(yaml.safe_load(path.read_text(encoding="utf-8")), sort_keys=False).splitlines()
    for path in sorted(EXPERIMENTS.glob("*.yaml"))
]

VALUES = [
    *("", "~", "null", "true", "no", "0", "-1", "1", "2", "3", "2.0", "1.5", "1e400", "-.inf", ".nan", "auto", "ring"),
    *("[]", "{}", "[1, 2]", "[weak]", "{a: 1}", "[[1]]", "'1'", '""', "text with spaces", "x" * 500, "ünïcödé ☃ 𝔘"),
    *("9" * 30, "9" * 6000, "0x" + "f" * 5000, "1_000", "0o17", "017", "1:30", "2026-11-20", "=", "<<", "1" * 4301),
    *("[" * 70 + "]" * 70, "{a: " * 70 + "1" + "}" * 70, "[" * 2000, "&a [1, *a]", "*a", "&a 1", "!!binary aGk="),
    *("!!set {a}", "!!int x", "!!python/object:os.system x", "!x y", '"\\0"', '"\\ud800"', '"\\e[31m"', '"\\u202e"'),
    *("|\n  block\n", ">\n", "'unclosed", '"unclosed', "[unclosed", "{unclosed", "a: b: c", "- - -", "? x", "@x", "`x"),
    *("{bool: 1}", "{str: x, int: 2}", "[{}]", "[null]", "[1, 1]", "[true, 1]", "['1', 1]", "1x8", "[1x2, 2x1]"),
]
KEYS = [
    "workes",
    "env.A",
    "precision",
    "options.compile",
    "batch.global",
    "allReduce",
    "",
    "1",
    "~",
    "a b",
    "ünï",
    "<<",
]
CHARACTERS = "\t\n\r\0\x01\x07\x1b\x7f\x85\u2028\ufeff\ud800☃𝔘:-#&*!|>'\"%@`{}[],? "

Lines = list[str]
Mutation = Callable[[st.DrawFn, Lines], None]


def _line(draw: st.DrawFn, lines: Lines) -> int:
    return draw(st.integers(0, len(lines) - 1))


def _split(line: str) -> tuple[str, str, str]:
    """Indentation with dashes, key with its colon, value."""
    body = line.lstrip(" -")
    key, colon, value = body.partition(":")
    return line[: len(line) - len(body)], key + colon if colon else "", value if colon else body


def _misspell(draw: st.DrawFn, lines: Lines) -> None:
    at = _line(draw, lines)
    indent, key, value = _split(lines[at])
    if key:
        where = draw(st.integers(0, len(key) - 1))
        put = draw(st.sampled_from(["", key[where] * 2, key[where].swapcase(), "x", "_"]))
        lines[at] = indent + key[:where] + put + key[where + 1 :] + value


def _swap_value(draw: st.DrawFn, lines: Lines) -> None:
    at = _line(draw, lines)
    indent, key, _ = _split(lines[at])
    lines[at] = f"{indent}{key} {draw(st.sampled_from(VALUES))}"


def _number(draw: st.DrawFn, lines: Lines) -> None:
    at = _line(draw, lines)
    indent, key, _ = _split(lines[at])
    number = draw(st.integers(-(10**20), 10**20) | st.integers(-2, 20) | st.floats())
    lines[at] = f"{indent}{key} {number}"


def _delete(draw: st.DrawFn, lines: Lines) -> None:
    del lines[_line(draw, lines)]


def _repeat(draw: st.DrawFn, lines: Lines) -> None:
    lines.insert(_line(draw, lines), lines[_line(draw, lines)])


def _indent(draw: st.DrawFn, lines: Lines) -> None:
    at = _line(draw, lines)
    lines[at] = draw(st.sampled_from(["  ", " ", "\t", "- "])) + lines[at]


def _new_field(draw: st.DrawFn, lines: Lines) -> None:
    at = _line(draw, lines)
    indent, _, _ = _split(lines[at])
    lines.insert(at, f"{indent}{draw(st.sampled_from(KEYS))}: {draw(st.sampled_from(VALUES))}")


def _character(draw: st.DrawFn, lines: Lines) -> None:
    at = _line(draw, lines)
    where = draw(st.integers(0, len(lines[at])))
    lines[at] = lines[at][:where] + draw(st.sampled_from(CHARACTERS)) + lines[at][where:]


def _matrix(draw: st.DrawFn, lines: Lines) -> None:
    axes = draw(st.lists(st.sampled_from(KEYS), max_size=4, unique=True))
    lines.append("  matrix:")
    lines.extend(f"    {axis}: [{draw(st.sampled_from(VALUES))}, {draw(st.sampled_from(VALUES))}]" for axis in axes)
    if draw(st.booleans()):
        lines.append(f"  exclude: [{{{draw(st.sampled_from(KEYS))}: {draw(st.sampled_from(VALUES))}}}]")


MUTATIONS: list[Mutation] = [
    *(_misspell, _swap_value, _swap_value, _number, _delete, _repeat, _indent, _new_field, _character, _matrix)
]


@st.composite
def mutated_experiments(draw: st.DrawFn) -> str:
    """The text of an example with one to three things changed."""
    lines = list(draw(st.sampled_from(TEXTS)))
    for mutation in draw(st.lists(st.sampled_from(MUTATIONS), min_size=1, max_size=3)):
        if lines:
            mutation(draw, lines)
    return "\n".join(lines) + "\n"
