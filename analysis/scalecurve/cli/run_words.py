"""The words of ``scalecurve run``: a file, or a command after ``--``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import fail

WORDS = "scalecurve.command"
"""Key of the context's ``meta`` with the words after ``--``."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "": 1}
_LAUNCHER_WORDS = ("python", "python3", "torchrun", "mpirun", "mpiexec", "accelerate", "deepspeed")


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
