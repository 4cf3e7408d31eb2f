"""What click cannot make sense of in a call, in one line: the verb, the option, what was given, what is expected."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import fail
from scalecurve_api.text import did_you_mean

_WORDING = (
    (r"^(.+) is not a valid integer(?: range)?$", r"got \1; expected a whole number"),
    (r"^(.+) is not a valid float(?: range)?$", r"got \1; expected a number"),
    (r"^(.+) is not in the range x>=(\S+)$", r"got \1; expected at least \2"),
    (r"^(.+) is not in the range x>(\S+)$", r"got \1; expected more than \2"),
    (r"^(.+) is not in the range (\S+)<=x<=(\S+)$", r"got \1; expected \2 to \3"),
    (r"^(.+) is not in the range (.+)$", r"got \1; expected \2"),
    (r"^(.+) is not one of (.+)$", r"got \1; expected one of \2"),
    (r"^Got unexpected extra arguments? \((.+)\)$", r"takes no further words, got \1"),
    (r"^Option '(.+)' requires (?:an argument|(\d+) arguments)$", r"\1: expected a value after it"),
    (r"^Option '(.+)' does not take a value$", r"\1: expected no value after it"),
    (r"^(?:File|Directory|Path) (.+) does not exist$", r"no such file: \1"),
    (r"(\d)\.0\b", r"\1"),
    (r"^Missing command$", "expected one of its commands"),
)
"""Messages of click -> ours."""
_SHORTEST_STEM = len("--rep")


@contextmanager
def in_one_line() -> Iterator[None]:
    """End the command with one line where click would print its usage and a hint above its message.

    Raises:
        click.exceptions.NoArgsIsHelpError: for a group without any word, which click answers with its help.
    """
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        fail(usage_line(error), EXIT_INPUT)


def usage_line(error: click.UsageError) -> str:
    """The error's line: ``run: --batch: got 'x'; expected a whole number; see scalecurve run --help``."""
    if error.ctx is None:
        return _message(error)
    path = error.ctx.command_path
    _, _, verb = path.partition(" ")
    return f"{f'{verb}: ' if verb else ''}{_message(error)}; see {path} --help"


def _message(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        near = _near(error)
        return f"no such option {error.option_name}" + (f"; did you mean {near}" if near else "")
    if isinstance(error, click.MissingParameter) and error.param is not None and error.ctx is not None:
        return f"expected {_name(error.param, error.ctx)}, which is missing"
    message = error.message.rstrip(".")
    for before, after in _WORDING:
        message = re.sub(before, after, message)
    if isinstance(error, click.BadParameter) and error.param is not None and error.ctx is not None:
        return f"{_name(error.param, error.ctx)}: {message}"
    return message


def _near(error: click.NoSuchOption) -> str | None:
    """The verb's option that was probably meant: a misspelling, or one that begins in the same way."""
    params = error.ctx.command.params if error.ctx else []
    options = [name for param in params for name in param.opts if name.startswith("--")]
    stem = error.option_name[:_SHORTEST_STEM]
    begins = (name for name in options if len(stem) == _SHORTEST_STEM and name.startswith(stem))
    return next(begins, None) or did_you_mean(error.option_name, options)


def _name(param: click.Parameter, ctx: click.Context) -> str:
    """``--batch`` of an option, ``FILE`` of an argument."""
    if isinstance(param, click.Argument):
        return param.make_metavar(ctx).strip("[]")
    return max(param.opts, key=len)
