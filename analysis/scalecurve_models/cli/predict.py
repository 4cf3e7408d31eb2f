"""``scalecurve predict EXPERIMENT|BUNDLE`` and ``scalecurve predict MODEL``; each is imported when it is called."""

import importlib

import click

from scalecurve_models.cli.predictors import PREDICTORS

PATH_COMMAND = ""
"""Name of the command for an argument that names no model: a path."""


class PredictGroup(click.Group):
    """Takes the models from their table, so that help imports none; anything else is a path, such as ./paleo."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in PREDICTORS and args[0] not in ("-h", "--help"):
            args = [PATH_COMMAND, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(PREDICTORS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == PATH_COMMAND:
            from scalecurve_models.cli.predict_experiment import command

            return command
        if cmd_name not in PREDICTORS:
            return None
        command = importlib.import_module(PREDICTORS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Models"):
            formatter.write_dl([(name, summary) for name, (_, summary) in PREDICTORS.items()])


@click.group("predict", cls=PredictGroup, subcommand_metavar="EXPERIMENT|BUNDLE|MODEL [OPTIONS]")
def command() -> None:
    """Predict step time, throughput, run time and cost at any worker count.

    scalecurve predict experiment.yaml --device H200 --link nvlink4 --workers 8,16,64 predicts before anything has run;
    scalecurve predict BUNDLE --workers 8,16,64 predicts from measurements, with every model. A model name uses that
    model alone. For the options: scalecurve predict PATH --help.
    """
