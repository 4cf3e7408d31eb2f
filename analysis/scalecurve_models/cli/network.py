"""``scalecurve network``: the arithmetic of convolutional networks."""

from pathlib import Path

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import fail, output_option, plot_option, save_plot, show
from scalecurve_models.cli.arguments import (
    device_option,
    input_errors,
    input_option,
    integers,
    network_named,
    precision_option,
)

REFERENCE = "a shipped network, a .yaml or .json file (our format or Paleo's), or package.module:name of torch"
MOST_CURVES = 12
_CAPTION = (
    "Published by others, none measured here: weak efficiency relative to the smallest count of each curve; single "
    "marks are published efficiencies. Sources are in the table."
)
_flops_option = click.option(
    "--flops", default="mac", show_default=True, help="Counting convention: mac, 2mac or lu (Lu et al. 2017)."
)
_batch_option = click.option(
    "--batch", type=click.IntRange(1, 10**9), default=1, show_default=True, help="Batch size for memory."
)


@click.group("network")
def command() -> None:
    """Show a network's shapes, parameters, FLOPs, memory and receptive fields."""


@command.command("list")
@_flops_option
@output_option
def list_(flops: str, output: str) -> None:
    """List the shipped networks."""
    from scalecurve_models.networks.catalog import SHIPPED, shipped
    from scalecurve_models.networks.counting import convention
    from scalecurve_models.networks.tables import totals_table

    with input_errors():
        show([totals_table([shipped(name) for name in SHIPPED], convention(flops))], output)


@command.command("show", help=f"Show every layer of NET with its counts, and the totals. NET is {REFERENCE}.")
@click.argument("net")
@_flops_option
@input_option
@_batch_option
@click.option("--matrix", is_flag=True, help="Show the convolutions as matrix products (im2col) instead.")
@output_option
def show_(net: str, flops: str, size: str | None, batch: int, matrix: bool, output: str) -> None:
    """Show every layer of a network."""
    from scalecurve_models.networks.counting import convention
    from scalecurve_models.networks.tables import matrix_table, network_tables

    with input_errors():
        network, counting = network_named(net, size), convention(flops)
        show([matrix_table(network)] if matrix else network_tables(network, counting, batch), output)


@command.command("compare", help=f"Compare the totals of several networks. NET is {REFERENCE}.")
@click.argument("nets", nargs=-1, required=True)
@_flops_option
@input_option
@_batch_option
@output_option
def compare(nets: tuple[str, ...], flops: str, size: str | None, batch: int, output: str) -> None:
    """Show the totals of several networks."""
    from scalecurve_models.networks.counting import convention
    from scalecurve_models.networks.tables import totals_table

    with input_errors():
        show([totals_table([network_named(net, size) for net in nets], convention(flops), batch)], output)


@command.command("published")
@click.argument("name", required=False)
@plot_option
@output_option
def published(name: str | None, folder: Path | None, output: str) -> None:
    """Show published scaling of networks, each point with its source; NAME is part of a network or publication.

    Nothing of it was measured here. --plot draws the efficiency over the number of accelerators.
    """
    from scalecurve_models.comparison.published import curves_named, published_table

    with input_errors():
        curves = curves_named(name)
    show([published_table(curves, "Published scaling")], output)
    if folder is not None:
        from scalecurve.reporting.drawing import first
        from scalecurve_models.report.plots import draw_published

        shown, left_out = first(curves, MOST_CURVES, "curves")
        save_plot(folder, "published", lambda: draw_published(shown, {}, _CAPTION + left_out), output)


@command.command("inception")
@click.option("--input", "size", default="32x32x256", show_default=True, help="Height x width x channels.")
@click.option(
    "--filters", default="128,192,96", show_default=True, help="Filters of the 1x1, 3x3 and 5x5 convolutions."
)
@click.option(
    "--reduce", "reductions", default="64,64", show_default=True, help="Filters of the 1x1 before the 3x3 and the 5x5."
)
@click.option("--project", default=64, show_default=True, help="Filters of the 1x1 after the pool.")
@_flops_option
@output_option
def inception(size: str, filters: str, reductions: str, project: int, flops: str, output: str) -> None:
    """Compare a naive inception module with the reduced one: output, operations, savings."""
    from scalecurve_models.networks.counting import convention
    from scalecurve_models.networks.inception import Filters, analyze_inception
    from scalecurve_models.networks.reading import shape_of_text
    from scalecurve_models.networks.tables import inception_tables

    kernels, reduced = integers(filters, "--filters"), integers(reductions, "--reduce")
    if len(kernels) != 3 or len(reduced) != 2:
        fail("--filters takes three numbers (1x1, 3x3, 5x5) and --reduce two (before the 3x3, the 5x5)", EXIT_INPUT)
    with input_errors():
        one, three, five = kernels
        analysis = analyze_inception(shape_of_text(size), Filters(one, three, five, reduced[0], reduced[1], project))
        show(inception_tables(analysis, convention(flops))[::-1], output)


@command.command("stack")
@click.argument("kernels", nargs=-1, required=True)
@click.option("--strides", help="A stride for each kernel: 2,1,1.  [default: 1]")
@click.option("--channels", type=click.IntRange(1, 10**6), help="Input and output channels of each, to count weights.")
@output_option
def stack(kernels: tuple[str, ...], strides: str | None, channels: int | None, output: str) -> None:
    """Show the receptive field of a stack of convolutions: KERNELS as 3 or 1x7."""
    from scalecurve_models.networks.reading import shape_of_text
    from scalecurve_models.networks.tables import stack_table

    with input_errors():
        pairs = [shape_of_text(kernel) * (1 if "x" in kernel.lower() else 2) for kernel in kernels]
        steps = [1] * len(pairs) if strides is None else integers(strides, "--strides")
        if any(len(pair) != 2 for pair in pairs) or len(steps) != len(pairs):
            fail("expected kernels such as 3 or 1x7, and one stride for each", EXIT_INPUT)
        show([stack_table([(p[0], p[1]) for p in pairs], [(s, s) for s in steps], channels)], output)


@command.command(
    "inference", help=f"Compare a device's upper bound on images/s with Paleo's prediction. NET is {REFERENCE}."
)
@click.argument("nets", nargs=-1, required=True)
@device_option
@click.option("--batch", type=int, default=64, show_default=True, help="Batch size.")
@click.option("--ppp", type=float, default=0.62, show_default=True, help="Fraction of peak.")
@precision_option
@click.option(
    "--flops", default="2mac", show_default=True, help="Convention of the bound; peaks count a multiply-add as two."
)
@output_option
def inference(
    nets: tuple[str, ...], device: str, batch: int, ppp: float, precision: str, flops: str, output: str
) -> None:
    """Compare a device's upper bound with Paleo's prediction."""
    from scalecurve.hardware.devices import find_device, precision_of
    from scalecurve_models.networks.counting import convention
    from scalecurve_models.paleo.scaling import inference_rate
    from scalecurve_models.paleo.tables import inference_table

    with input_errors():
        on, counting, checked = find_device(device), convention(flops), precision_of(precision)
        rates = [
            inference_rate(network_named(net), on, batch=batch, ppp=ppp, convention=counting, precision=checked)
            for net in nets
        ]
        show([inference_table(rates, ppp)], output)


@command.command("convert", help=f"Print NET in our format, one layer per line. NET is {REFERENCE}.")
@click.argument("net")
@input_option
def convert(net: str, size: str | None) -> None:
    """Print a network in our format."""
    from scalecurve_models.networks import write_network

    with input_errors():
        click.echo(write_network(network_named(net, size)), nl=False)
