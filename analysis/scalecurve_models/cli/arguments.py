"""What the verbs about networks and models share: a network from what was typed, and errors in a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scalecurve.cli import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail

if TYPE_CHECKING:
    from scalecurve_models.networks import Network, Shape

TRACED_INPUT = (224, 224, 3)


@contextmanager
def refusals() -> Iterator[None]:
    """Networks, devices, prices, predictions that cannot be: one line and the exit code for bad input."""
    from scalecurve.hardware.entries import EntryError
    from scalecurve_models.fitting.least_squares import FitError
    from scalecurve_models.networks import NetworkError
    from scalecurve_models.paleo.terms import PaleoError

    try:
        yield
    except (NetworkError, EntryError, PaleoError, FitError) as error:
        fail(" ".join(str(error).split()), EXIT_INPUT)


def network_named(reference: str, size: str | None = None) -> Network:
    """A shipped network, a file's, or ``package.module:name`` of torch; ``size`` as 224x224 or 224x224x3."""
    from scalecurve_models.networks import find

    if ":" not in reference:
        network = find(reference)
        return network if size is None else network.with_input(_shape(size, network.input.shape[-1]))
    try:
        from scalecurve_models.networks.tracing import trace_reference

        return trace_reference(reference, TRACED_INPUT if size is None else _shape(size, TRACED_INPUT[-1]))
    except ModuleNotFoundError as error:
        fail(f"{reference}: {error}; install scalecurve[torch] to trace modules", EXIT_ENVIRONMENT)


def _shape(size: str, channels: int) -> Shape:
    from scalecurve_models.networks.reading import shape_of_text

    shape = shape_of_text(size)
    return (*shape, channels) if len(shape) == 2 else shape


def whole_numbers(text: str, what: str) -> list[int]:
    """``1,2,4`` as numbers, or a clear end."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and part.isascii() and len(part) < 19 for part in parts):
        fail(f"{what}: {text!r}: whole numbers with commas between them are wanted, as 1,2,4", EXIT_INPUT)
    return [int(part) for part in parts]
