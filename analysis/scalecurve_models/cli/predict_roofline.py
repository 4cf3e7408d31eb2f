"""``scalecurve predict roofline``."""

from __future__ import annotations

import click

from scalecurve.cli.output import Real, output_option, show
from scalecurve_models.cli.arguments import refusals


@click.command("roofline")
@click.option("--device", required=True, help="A shipped device, or a .yaml file with one.")
@click.option("--precision", default="fp32", show_default=True, help="fp32, tf32, bf16 or fp16.")
@click.option("--flops", type=Real(min=0), required=True, help="Of the work; a multiply-add is two.")
@click.option("--bytes", "moved", type=Real(min=0), required=True, help="That it moves through memory.")
@output_option
def command(device: str, precision: str, flops: float, moved: float, output: str) -> None:
    """Say the least time of some work on a device, and whether arithmetic or memory sets it."""
    from scalecurve_models.roofline.bound import roof_of, roofline_table

    with refusals():
        show([roofline_table(device, precision, roof_of(device, precision), flops, moved)], output)
