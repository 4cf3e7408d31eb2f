"""``scalecurve predict EXPERIMENT|BUNDLE``, and ``scalecurve predict MODEL``: each imported when it is called."""

from __future__ import annotations

import importlib

import click

# model -> (module that holds its ``command``, what it does in a line)
MODELS: dict[str, tuple[str, str]] = {
    "paleo": ("scalecurve_models.cli.predict_paleo", "Layer by layer from FLOPs and bytes (Qi et al., ICLR 2017)."),
    "scaling": (
        "scalecurve_models.cli.predict_scaling",
        "Any worker count, from what a bundle measured, by every model.",
    ),
    "collective": (
        "scalecurve_models.cli.predict_collective",
        "An all-reduce by each algorithm, from latency and bandwidth.",
    ),
    "optimus": (
        "scalecurve_models.cli.predict_optimus",
        "Speed over workers and servers, time to a loss (EuroSys 2018).",
    ),
    "roofline": ("scalecurve_models.cli.predict_roofline", "The least time of some work on a device."),
}


ANY = ""
"""The name of the command for what is no model's name: a path."""


class ModelGroup(click.Group):
    """Lists models from the table; help imports none of them. What is no model's name is a path, as ``./paleo`` is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command for paths before anything that is no model and no call for help."""
        if args and args[0] not in MODELS and args[0] not in ("-h", "--help"):
            args = [ANY, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The models, in the order of the table."""
        return list(MODELS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of the model."""
        if cmd_name == ANY:
            from scalecurve_models.cli.predict_experiment import command

            return command
        if cmd_name not in MODELS:
            return None
        command = importlib.import_module(MODELS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Help lines from the table."""
        with formatter.section("Models"):
            lines = [(name, line) for name, (_, line) in MODELS.items()]
            formatter.write_dl(lines or [("(none)", "This release has none yet.")])


@click.group("predict", cls=ModelGroup, subcommand_metavar="EXPERIMENT|BUNDLE|MODEL [OPTIONS]")
def command() -> None:
    """Predict step time, throughput, run time and cost at any worker count.

    scalecurve predict experiment.yaml --device H200 --link nvlink4 --workers 8,16,64 predicts before anything ran;
    scalecurve predict BUNDLE --workers 8,16,64 from what was measured, by every model. A model's name predicts by
    that model alone. Options: scalecurve predict PATH --help.
    """
