"""What explains a step beside its time, and the other kinds of step that take turns with it."""

from typing import Any, Protocol

from scalecurve_api.record.rank import WindowKind
from scalecurve_worker.record.session import Facts
from scalecurve_worker.rendezvous.communicator import Communicator
from scalecurve_worker.sdk.sections import Sections


class Alternate(Protocol):
    """Another kind of step that takes turns with training, as the same step without its all-reduce."""

    kind: WindowKind
    method: str | None
    """How communication is taken out, by name; None where it is not about that."""

    def enter(self) -> None:
        """Begin with this kind; the device is idle."""

    def leave(self) -> None:
        """Train again, from the state that ``enter`` found."""


class Explainer:
    """Of a program of anyone's: memory, FLOPs, traffic and exposed communication, as far as its framework tells.

    This one knows no framework, and tells nothing. No method is called within a timed window, and every rank calls
    the same ones in the same order.
    """

    @property
    def counts(self) -> bool:
        """Whether some untimed steps are to be counted, each between ``begin_count`` and ``end_count``."""
        return False

    @property
    def traces(self) -> bool:
        """Whether untimed steps after the last window are to be traced, between ``begin_trace`` and ``end_trace``."""
        return False

    def model(self, model: Any) -> None:
        """Accept the model that the program trains."""

    def begin(self) -> None:
        """Prepare for the first step, which is about to run.

        Raises:
            RuntimeError: what would be timed is not what runs.
        """

    def begin_count(self) -> None:
        """Begin counting: the next step is the counted one."""

    def end_count(self, samples: int) -> None:
        """End the counted step; it had so many samples, or tokens where these are the unit."""

    def alternate(self, communicator: Communicator) -> Alternate | None:
        """Return the step without communication, where all ranks can run one and restore their state. Collective."""
        return None

    def window_opens(self) -> None:
        """Handle a train window that is about to open."""

    def window_closed(self) -> None:
        """Handle a train window that has closed."""

    @property
    def watches(self) -> bool:
        """Whether untimed steps after the last window are to be timed section by section."""
        return False

    def watch_sections(self, sections: Sections) -> None:
        """Report the sections of the next steps to ``sections``, until it is closed."""

    def begin_trace(self, steps: int) -> None:
        """Begin a trace of the next ``steps`` steps."""

    def end_trace(self, wall_ns: int) -> None:
        """End the trace; the traced steps took ``wall_ns`` nanoseconds."""

    @property
    def exposed_share(self) -> float | None:
        """The share of the traced steps in which this rank only communicated, where they were traced."""
        return None

    def explain(self, facts: Facts, communicator: Communicator) -> None:
        """Fill in what was found, at the end. Collective."""
