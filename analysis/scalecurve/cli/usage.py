"""How a call is read: the words of ``scalecurve run``, and in one line what click cannot make sense of."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
WORDS = "scalecurve.command"
"""Key of the context's ``meta`` with the words after ``--``."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "": 1}
_LAUNCHER_WORDS = ("python", "python3", "torchrun", "mpirun", "mpiexec", "accelerate", "deepspeed")


@contextmanager
def shorten_usage_errors() -> Iterator[None]:
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
        near = _nearest_option(error)
        return f"no such option {error.option_name}" + (f"; did you mean {near}" if near else "")
    if isinstance(error, click.MissingParameter) and error.param is not None and error.ctx is not None:
        return f"expected {_name(error.param, error.ctx)}, which is missing"
    message = error.message.rstrip(".")
    for before, after in _WORDING:
        message = re.sub(before, after, message)
    if isinstance(error, click.BadParameter) and error.param is not None and error.ctx is not None:
        return f"{_name(error.param, error.ctx)}: {message}"
    return message


def _nearest_option(error: click.NoSuchOption) -> str | None:
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


def refuse_repeated(command: click.Command, name: str | None, args: Sequence[str], parent: click.Context) -> None:
    """Refuse a second value of an option that takes one: click would use the last without a word.

    Raises:
        click.UsageError: naming the option and how often it was given.
    """
    context = command.context_class(command, parent=parent, info_name=name, **command.context_settings)
    try:
        _, rest, given = command.make_parser(context).parse_args(list(args))
    except click.UsageError:
        return  # it is told when the command reads its words
    for param, times in Counter(given).items():
        if isinstance(param, click.Option) and times > 1 and not (param.multiple or param.is_flag or param.count):
            several = f"; {hint}" if (hint := getattr(param.type, "several", "")) else ""
            raise click.UsageError(f"{_name(param, context)}: expected once, got {times} times{several}", context)
    if isinstance(command, click.Group) and rest and (verb := command.get_command(context, rest[0])):
        refuse_repeated(verb, rest[0], rest[1:], context)


class Duration(click.ParamType[float]):
    """Seconds, from ``90``, ``90s``, ``10m`` or ``1h``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        if not (written := re.fullmatch(r"(\d+)([smh]?)", value)) or not int(written[1]):
            self.fail(f"got {value!r}; expected a time such as 90s, 10m or 1h", param, ctx)
        return float(int(written[1]) * _UNITS[written[2]])


class RunVerb(click.Command):
    """A verb that takes a file, or a command after ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[WORDS], args = tuple(args[at + 1 :]), args[:at]
        elif command := _bare_command(args):
            before = args[: len(args) - len(command)] if command[0] in args else args[: len(args) - len(command) + 1]
            typed = shlex.join(["scalecurve", "run", *before, "--", *command])
            fail(f"put -- before the command: {typed}", EXIT_INPUT)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "FILE | -- COMMAND..."]


def _bare_command(args: Sequence[str]) -> list[str]:
    """A command that was typed without ``--``: from the first word that starts a program, as it has to be typed."""
    for at, word in enumerate(args):
        if word in _LAUNCHER_WORDS:
            return list(args[at:])
        if Path(word).suffix == ".py" and (at == 0 or not args[at - 1].startswith("-")):
            return ["python", *args[at:]]
    return []
