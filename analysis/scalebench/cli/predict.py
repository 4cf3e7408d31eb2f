"""``scalebench predict MODEL``: one subcommand a model, imported when it is called."""

from __future__ import annotations

import importlib

import click

# model -> (module that holds its ``command``, what it does in a line)
MODELS: dict[str, tuple[str, str]] = {
    "paleo": ("scalebench.cli.predict_paleo", "Layer by layer from FLOPs and bytes (Qi et al., ICLR 2017)."),
    "scaling": (
        "scalebench.cli.predict_scaling",
        "Any worker count, from what a bundle measured, by every model.",
    ),
    "collective": ("scalebench.cli.predict_collective", "An all-reduce by each algorithm, from latency and bandwidth."),
    "optimus": ("scalebench.cli.predict_optimus", "Speed over workers and servers, time to a loss (EuroSys 2018)."),
    "roofline": ("scalebench.cli.predict_roofline", "The least time of some work on a device."),
}


class ModelGroup(click.Group):
    """Lists models from the table; help imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The models, in the order of the table."""
        return list(MODELS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of the model."""
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


@click.group("predict", cls=ModelGroup)
def command() -> None:
    """Predict step time, throughput and scaling with one of the models."""
