"""The command line, ``scalecurve VERB``. A verb is imported when it is called, which keeps help fast."""

import os
import sys
from io import TextIOWrapper
from typing import Any

import click

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_FAILED, EXIT_INTERRUPTED
from scalecurve.cli.output import fail
from scalecurve.cli.usage import refuse_repeated, shorten_usage_errors
from scalecurve.cli.verbs import verbs
from scalecurve_api.text import did_you_mean


class LazyGroup(click.Group):
    """Lists verbs from tables and imports the module of a verb only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(verbs())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return verbs()[cmd_name].command() if cmd_name in verbs() else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.help) for name, verb in verbs().items()])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Errors in the words before the verb take one line."""
        with shorten_usage_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Ctrl-C has its own exit code; click's would be that of a failed trial. Errors in words take one line."""
        try:
            with shorten_usage_errors():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("scalecurve: interrupted", err=True)
            sys.exit(EXIT_INTERRUPTED)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in verbs() and not args[0].startswith("-"):
            near = did_you_mean(args[0], verbs())
            expected = f"did you mean {near!r}" if near else f"expected one of {', '.join(verbs())}"
            raise click.UsageError(f"no verb {args[0]!r}; {expected}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            refuse_repeated(command, name, rest, ctx)
        return name, command, rest


@click.group(
    cls=LazyGroup,
    subcommand_metavar="VERB ...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="scalecurve", message="scalecurve %(version)s")
def cli() -> None:
    """How does this training job scale, why does it bend, what does it cost, and can I believe the number?

    \b
    Exit codes: 0 success, 1 a trial failed or a threshold was missed,
    2 bad input, 3 environment (no cluster, no GPU), 130 interrupted.
    """


def main(args: list[str] | None = None) -> Any:
    """Entry point of the ``scalecurve`` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that has no such character is shown its code; "?" would mean an unfinished point.
            stream.reconfigure(errors="backslashreplace")
    try:
        return cli.main(args=args, prog_name="scalecurve")
    except BrokenPipeError:
        # The reader is gone (| head): no traceback at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
    except OSError as error:
        # What no verb handles itself: a path that the system refuses, a full disk behind the output.
        reason = error.strerror or str(error)
        fail(f"{error.filename}: {reason}" if error.filename else reason, EXIT_ENVIRONMENT)
