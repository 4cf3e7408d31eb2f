"""What a trial measures after its timed windows: each is a field of ``spec.measure``, carried out by a framework."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from scalecurve_api.model import Described
from scalecurve_api.problem import Problem
from scalecurve_api.programs.workload import Workload


class FurtherMeasurement(Described):
    """A request for something that is measured after the timed windows."""

    called: ClassVar[str]
    """As messages have it: ``the training to accuracy``."""
    runs: ClassVar[Mapping[str, str]] = {}
    """Framework -> ``module:NAME`` of the ``Measuring`` that does it on every rank."""

    def problems(self, workload: Workload, workers: int) -> Iterator[Problem]:
        """Yield every rule that it breaks beside this workload on ``workers`` workers."""
        yield from ()
