"""Other forms of the same figure: its panels one below the other for a phone, and linear axes in place of log ones.

Plots need not know: who draws within ``use_form`` gets sheets and axes of that form.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """What differs from the figure as it is in files."""

    phone: bool = False
    linear: bool = False


_form: ContextVar[Form | None] = ContextVar("form", default=None)


def form() -> Form:
    """Of the figures that are drawn now."""
    return _form.get() or Form()


@contextmanager
def use_form(chosen: Form) -> Iterator[None]:
    """Figures drawn within have this form."""
    token = _form.set(chosen)
    try:
        yield
    finally:
        _form.reset(token)
