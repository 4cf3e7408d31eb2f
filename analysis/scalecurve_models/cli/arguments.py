"""What the verbs about networks and models share: options, numbers and networks from text, errors in one line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from scalecurve_models.networks import Network, Shape
    from scalecurve_models.paleo.scaling import Platform

    F = TypeVar("F", bound=Callable[..., Any])

TRACED_INPUT = (224, 224, 3)


@contextmanager
def input_errors() -> Iterator[None]:
    """Report a network, device, price or fit error in one line, with the exit code for bad input."""
    from scalecurve.hardware.entries import EntryError
    from scalecurve_models.fitting.least_squares import FitError
    from scalecurve_models.networks import NetworkError
    from scalecurve_models.paleo.terms import PaleoError

    try:
        yield
    except (NetworkError, EntryError, PaleoError, FitError) as error:
        fail(" ".join(str(error).split()), EXIT_INPUT)


device_option = click.option("--device", required=True, help="A shipped device, or a .yaml file.")
precision_option = click.option("--precision", default="fp32", show_default=True, help="fp32, tf32, bf16 or fp16.")


input_option = click.option(
    "--input", "--shape", "size", help="Another input size: 224x224 or 224x224x3, or as data.shape: 3,224,224."
)


def ppp_options(function: F) -> F:
    """Add ``--ppp-comp``, ``--ppp-comm`` and ``--software``, which sets both."""
    by_software = "[default: --software's]"
    for option in (
        click.option(
            "--software",
            default="tensorflow",
            show_default=True,
            help="PPPs measured in 2016: tensorflow, mxnet, caffe; or peak.",
        ),
        click.option("--ppp-comm", type=float, help=f"Fraction of the link's peak reached.  {by_software}"),
        click.option("--ppp-comp", type=float, help=f"Fraction of the device's peaks reached.  {by_software}"),
    ):
        function = option(function)
    return function


def platform_of(
    device: str, link: str | None, ppp_comp: float | None, ppp_comm: float | None, software: str, precision: str
) -> Platform:
    """Build the platform that these options describe."""
    from scalecurve.hardware.devices import find_device, find_link, precision_of
    from scalecurve_models.paleo.scaling import SOFTWARE, Platform

    if software not in SOFTWARE:
        fail(f"--software {software!r}: expected one of {', '.join(SOFTWARE)}", EXIT_INPUT)
    comp, comm = SOFTWARE[software]
    return Platform(
        find_device(device),
        find_link(link or "ethernet20"),
        comp if ppp_comp is None else ppp_comp,
        comm if ppp_comm is None else ppp_comm,
        precision_of(precision),
    )


def network_named(reference: str, size: str | None = None) -> Network:
    """Find a shipped network, read one from a file, or trace ``package.module:name`` of torch.

    ``size`` is HxW, HxWxC, or C,H,W as experiments have it.
    """
    from scalecurve_models.networks import find_network

    if ":" not in reference:
        network = find_network(reference)
        return network if size is None else network.with_input(_shape(size, network.input.shape[-1]))
    try:
        from scalecurve_models.networks.tracing import trace_reference

        return trace_reference(reference, TRACED_INPUT if size is None else _shape(size, TRACED_INPUT[-1]))
    except ModuleNotFoundError as error:
        fail(f"{reference}: {error}; install scalecurve[torch] to trace modules", EXIT_ENVIRONMENT)


def _shape(size: str, channels: int) -> Shape:
    from scalecurve_models.networks.reading import shape_of_text

    if "," in size:
        depth, *sides = integers(size, "--shape")
        if len(sides) != 2 or 0 in (depth, *sides):
            fail(f"--shape: expected channels, height and width such as 3,224,224, got {size!r}", EXIT_INPUT)
        return (*sides, depth)
    shape = shape_of_text(size)
    return (*shape, channels) if len(shape) == 2 else shape


def integers(text: str | None, option: str) -> list[int]:
    """Parse ``1,2,4`` as integers, empty for None; anything else ends the command."""
    parts = [part.strip() for part in text.split(",")] if text is not None else []
    if not all(part.isdecimal() and part.isascii() and len(part) < 19 for part in parts):
        fail(f"{option}: expected comma-separated integers such as 1,2,4, got {text!r}", EXIT_INPUT)
    return [int(part) for part in parts]


def numbers(text: str, option: str) -> list[float]:
    """Parse ``1.5,0,2`` as finite numbers; anything else ends the command."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [math.nan]
    if not all(math.isfinite(value) for value in values):
        fail(f"{option}: expected comma-separated numbers such as 1.02,2.78, got {text!r}", EXIT_INPUT)
    return values
