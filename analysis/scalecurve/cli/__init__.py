"""The one door to everything: ``scalecurve VERB``. Each verb is loaded when it is called, so that help is quick."""

from __future__ import annotations

import importlib
import os
import sys
from io import TextIOWrapper
from typing import Any

import click

# verb -> (what it does, in a line)
VERBS: dict[str, str] = {
    "validate": "Check experiments: every error with its line and what is allowed.",
    "plan": "Show the ordered trials of an experiment, with time and cost.",
    "run": "Run an experiment on this machine's GPUs or CPUs.",
    "quickstart": "Run a first experiment that fits this machine, and write its report.",
    "status": "Show how far a bundle has come, or an experiment in a cluster.",
    "watch": "Follow an experiment in a cluster until it ends.",
    "pull": "Fetch the records of an experiment in a cluster into a bundle.",
    "pack": "Pack a bundle into one file, which every verb opens.",
    "unpack": "Unpack a packed bundle into a folder.",
    "report": "Write the report of one or several bundles: HTML, Markdown, CSV, plots.",
    "compare": "Say which points changed beyond noise between two bundles.",
    "diagnose": "Look for stragglers, drift, bimodal steps and short warm-ups.",
    "allreduce": "Show the all-reduce microbenchmark: latency, algbw, busbw.",
    "training": "Show accuracy, epochs and time to a target, data, noise scale, quantization.",
    "cost": "Show cost and time of every point, the cheapest and the fastest.",
    "network": "Show the arithmetic of a network: shapes, parameters, FLOPs, receptive fields.",
    "predict": "Predict step time and scaling, also before anything ran.",
    "fit": "Fit every model to the measured points, and show predicted beside measured.",
    "recommend": "Say which worker count is cheapest and which fastest, and how sure that is.",
    "doctor": "Say what this machine or a cluster has, and whether an experiment could start.",
}

EXIT_FAILED = 1
EXIT_INPUT = 2
EXIT_ENVIRONMENT = 3
EXIT_INTERRUPTED = 130


class LazyGroup(click.Group):
    """Lists verbs from a table and imports ``scalecurve.cli.<verb>`` only when one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of the verb."""
        if cmd_name not in VERBS:
            return None
        package = "scalecurve_models" if cmd_name in ("network", "predict", "fit", "recommend") else "scalecurve"
        command = importlib.import_module(f"{package}.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Help lines from the table: nothing is imported for them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Ctrl-C has its own exit code; click's would be that of a failed trial."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("scalecurve: interrupted", err=True)
            sys.exit(EXIT_INTERRUPTED)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """An unknown verb is met with the nearest one."""
        import difflib

        if args and args[0] not in VERBS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], list(VERBS), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No verb {args[0]!r}.{hint} Verbs: {', '.join(VERBS)}.", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    subcommand_metavar="VERB ...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="scalecurve", message="scalecurve %(version)s")
def cli() -> None:
    """How does this training job scale, why does it bend, what does it cost, and can I believe the number?

    \b
    Exit codes: 0 good, 1 a trial failed or a threshold was missed, 2 bad input,
    3 environment (no cluster, no GPU), 130 interrupted.
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
        # The reader has gone (| head): nothing more to say, and no traceback at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
    except OSError as error:
        # What no verb has words of its own for: a path that the system refuses, a full disk behind the output.
        from scalecurve.cli.output import fail

        said = error.strerror or str(error)
        fail(f"{error.filename}: {said}" if error.filename else f"the system refused: {said}", EXIT_ENVIRONMENT)
