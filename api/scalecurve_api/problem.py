"""One problem of an input: where it is, what it is, and what to do about it.

Each kind of problem has one function here that words it, so that all messages have the same form.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from scalecurve_api.text import did_you_mean, few

Path = tuple[str | int, ...]
_MOST_NAMES = 60


class ProblemCode(StrEnum):
    """Kinds of problems, named as the API server names those that it has (``field.ErrorType`` of apimachinery)."""

    duplicate = "Duplicate"
    forbidden = "Forbidden"
    invalid = "Invalid"
    malformed = "Malformed"
    not_supported = "NotSupported"
    required = "Required"
    unknown = "Unknown"


@dataclass(frozen=True)
class Violation:
    """Why a value is refused, and what to do about it.

    ``names_value`` is whether the message begins with the value: not where the field itself should not exist.
    """

    code: ProblemCode
    text: str
    suggestion: str | None = None
    names_value: bool = True


class Description(str):
    """Words that stand for a value instead of quoting it: ``an empty file``."""


NOTHING = Description("nothing")
"""Stands for a field that does not exist."""


@dataclass(frozen=True)
class Problem:
    """A validation error; ``str`` is one line. ``path`` is empty where the input as a whole is wrong."""

    path: Path
    got: object
    violation: Violation
    file: str = ""
    line: int | None = None

    @property
    def field(self) -> str:
        return spell(self.path)

    @property
    def code(self) -> ProblemCode:
        return self.violation.code

    @property
    def suggestion(self) -> str | None:
        """The nearest valid spelling."""
        return self.violation.suggestion

    @property
    def message(self) -> str:
        """What is wrong and what to do, without the place."""
        got = f"got {shorten(self.got)}; " if self.violation.names_value else ""
        named = self.violation.text == f"expected {self.suggestion!r}"
        hint = f"; did you mean {self.suggestion!r}?" if self.suggestion and not named else ""
        return printable(f"{got}{self.violation.text}{hint}")

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        head = "".join(f"{part}: " for part in (place, self.field) if part)
        return f"{printable(head)}{self.message}"


def expected(text: str, suggestion: str | None = None) -> Violation:
    """Name what the value must be: ``got 0; expected at least 1``."""
    return Violation(ProblemCode.invalid, f"expected {text}", suggestion)


def expected_once(noun: str = "value") -> Violation:
    """Report a value that its list has already: ``got 1; expected each value once``."""
    return Violation(ProblemCode.duplicate, f"expected each {noun} once")


def unsupported(where: str, use: str = "") -> Violation:
    """Report a value that is right elsewhere: ``got "fp16"; not supported on device cpu; use fp32 or bf16``."""
    return Violation(ProblemCode.not_supported, f"not supported {where}{f'; use {use}' if use else ''}")


def forbidden(reason: str) -> Violation:
    """Report a field that must not be set: ``set by batch.ladder; remove it``."""
    return Violation(ProblemCode.forbidden, f"{reason}; remove it", names_value=False)


def only_with(owner: str) -> Violation:
    """Report a field that something else brings: ``applies to strategy fsdp only; remove it``."""
    return forbidden(f"applies to {owner} only")


def reserved(reason: str) -> Violation:
    """Report a name that the product itself sets: ``got "RANK"; reserved: set for each process; use another name``."""
    return Violation(ProblemCode.forbidden, f"reserved: {reason}; use another name")


def required(text: str) -> Violation:
    """Report a field that is missing: ``required: the folder that holds cifar10``."""
    return Violation(ProblemCode.required, f"required{f': {text}' if text else ''}", names_value=False)


def unknown(noun: str, name: str, names: Collection[str]) -> Violation:
    """Report a name that does not exist: ``unknown field 'clases'; did you mean 'classes'?``, or list those that do."""
    near = did_you_mean(name, names)
    listed = "" if near else f"; expected one of {few(names, _MOST_NAMES)}"
    return Violation(ProblemCode.unknown, f"unknown {noun} {name!r}{listed}", near, names_value=False)


def report_unknown_placeholder(name: str, names: Collection[str]) -> Violation:
    """Report ``{name}`` in a command; list the others even beside a suggestion, since they are few and short."""
    near = did_you_mean(name, names)
    listed = few((f"{{{other}}}" for other in names), _MOST_NAMES)
    text = f"unknown placeholder {{{name}}}; expected one of {listed}; {{{{{name}}}}} stands for {{{name}}} itself"
    return Violation(ProblemCode.unknown, text, near and f"{{{near}}}", names_value=False)


def malformed(reason: str) -> Violation:
    """Report a text that cannot be read at all."""
    return Violation(ProblemCode.malformed, reason, names_value=False)


def one_of(names: Iterable[object]) -> str:
    """Spell alternatives: ``fp32, tf32 or bf16``; nothing if there are none."""
    *most, last = [*map(str, names)] or [""]
    return f"{', '.join(most)} or {last}" if most else last


def spell(path: Path) -> str:
    """A field path as people write it: ``spec.scaling.workers[2]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part and part.isprintable() and " " not in part
            text += ("." if text else "") + (part if plain else json.dumps(part))
    return text


def shorten(value: object, most: int = 120) -> str:
    """A value on one line, cut where it is long."""
    try:
        text = value if isinstance(value, Description) else json.dumps(value, default=str, ensure_ascii=False)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list within itself
        text = f"(a {type(value).__name__} that cannot be shown)"
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


def printable(text: str) -> str:
    """``text`` with everything that would move a terminal's cursor, or cannot be encoded, spelled out."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
