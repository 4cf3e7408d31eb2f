"""The workload behind numbers from elsewhere: what their source states of the program, and that it cannot be run."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pydantic import Field

from scalecurve_api.model import Scalar
from scalecurve_api.problem import Problem, expected
from scalecurve_api.programs.workload import Workload

UNKNOWN_MODEL = "unknown"


class ImportedWorkload(Workload):
    """What `scalecurve import` writes into a bundle; no engine runs it."""

    counts_samples: ClassVar[bool] = False

    program: Literal["imported"]
    model: str = Field(default=UNKNOWN_MODEL, min_length=1, max_length=100, description="Name of the model.")
    parameters: dict[str, Scalar] = {}
    """What else the source states, such as device and network; each may be an axis."""

    @property
    def own_values(self) -> Mapping[str, Scalar]:
        return self.parameters

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield self.problem("program", expected("a program that can run; imported numbers were measured elsewhere"))
