"""What ``--search`` of ``run`` and ``plan`` does: a ``Selector``, found by the entry point ``scalecurve.selectors``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT
from scalecurve.cli.output import fail
from scalecurve_api.registry import Registry, RegistryError

if TYPE_CHECKING:
    from scalecurve.planning.candidates import Candidates
    from scalecurve.render.table import Table
    from scalecurve_api.spec.experiment import ScalingExperiment
    from scalecurve_local import RunResult


class RunExperiment(Protocol):
    """Runs an experiment into a bundle, with a live line."""

    def __call__(self, experiment: ScalingExperiment, source: str, bundle: Path, *, resume: bool) -> RunResult: ...


class Selector(ABC):
    """Chooses the points of an experiment that get its full trials."""

    @abstractmethod
    def candidates(self, file: Path, overlays: Sequence[Path], device_gb: float | None) -> Candidates:
        """The points of a file's experiment that can run; without any, prints its problems and ends the process."""

    @abstractmethod
    def planned(self, candidates: Candidates) -> list[Table]:
        """What would be dropped before a trial, and the rounds of trials."""

    @abstractmethod
    def run(self, candidates: Candidates, bundle: Path, resume: bool, run: RunExperiment) -> RunResult:
        """Run what it takes, then the chosen points into ``bundle``; the result of what ran last."""


_INSTALLED: Registry[Selector] = Registry("scalecurve.selectors", "search", Selector, {})


def selector() -> Selector:
    """The first by name; ends the verb where none is installed."""
    for name in _INSTALLED.names():
        try:
            return _INSTALLED.get(name)
        except RegistryError as error:
            fail(f"--search: {error}", EXIT_ENVIRONMENT)
    fail("--search: no search is installed", EXIT_ENVIRONMENT)
