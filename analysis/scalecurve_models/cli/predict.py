"""``scalecurve predict EXPERIMENT|BUNDLE`` and ``scalecurve predict MODEL``; each is imported when it is called."""

import click

from scalecurve_api.registry import load

_HERE = "scalecurve_models.cli"
# model -> (its command, what it does in a line)
PREDICTORS = {
    "paleo": (f"{_HERE}.predict_paleo:command", "Layer by layer from FLOPs and bytes (Qi et al., ICLR 2017)."),
    "scaling": (f"{_HERE}.predict_path:command", "Any worker count from a measured bundle, by every model."),
    "collective": (f"{_HERE}.predict_numbers:collective", "All-reduce time by algorithm from latency, bandwidth."),
    "optimus": (f"{_HERE}.predict_numbers:optimus", "Speed by workers, servers; time to a loss (EuroSys 2018)."),
    "roofline": (f"{_HERE}.predict_numbers:roofline", "Lower bound on the time of a piece of work on a device."),
}
PATH_COMMAND = ""  # name of the command for an argument that names no model: a path


class PredictGroup(click.Group):
    """Takes the models from their table, so that help imports none; anything else is a path, such as ./paleo."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in PREDICTORS and args[0] not in ("-h", "--help"):
            args = [PATH_COMMAND, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(PREDICTORS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        reference, _ = PREDICTORS.get("scaling" if cmd_name == PATH_COMMAND else cmd_name, (None, ""))
        command: click.Command | None = load(reference) if reference else None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Models"):
            formatter.write_dl([(name, summary) for name, (_, summary) in PREDICTORS.items()])


@click.group("predict", cls=PredictGroup, subcommand_metavar="EXPERIMENT|BUNDLE|POINTS.csv|MODEL [OPTIONS]")
def command() -> None:
    """Predict step time, throughput, run time and cost at any worker count.

    scalecurve predict experiment.yaml --device H200 --link nvlink4 --workers 8,16,64 predicts before anything has run;
    scalecurve predict BUNDLE --workers 8,16,64 predicts from measurements, with every model; POINTS.csv from
    throughputs measured anywhere, with an interval or a refusal. A model name uses that model alone. For the options:
    scalecurve predict PATH --help.
    """
