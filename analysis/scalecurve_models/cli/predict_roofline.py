"""``scalecurve predict roofline``."""

import click

from scalecurve.cli.output import Real, output_option, show
from scalecurve_models.cli.arguments import device_option, input_errors, precision_option


@click.command("roofline")
@device_option
@precision_option
@click.option("--flops", type=Real(min=0), required=True, help="FLOPs of the work; a multiply-add counts as two.")
@click.option("--bytes", "moved", type=Real(min=0), required=True, help="Bytes moved through memory.")
@output_option
def command(device: str, precision: str, flops: float, moved: float, output: str) -> None:
    """Show the lower bound on the time of some work on a device, and whether compute or memory sets it."""
    from scalecurve_models.roofline.bound import roof_of, roofline_table

    with input_errors():
        show([roofline_table(device, precision, roof_of(device, precision), flops, moved)], output)
