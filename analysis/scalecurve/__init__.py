"""ScaleCurve in Python: the verbs of the command line as functions, imported when they are first used.

``scalecurve.open_bundles(["results/mine"])`` opens what ``scaling``, ``cost``, ``allreduce``, ``collectives``,
``training``, ``compare``, ``diagnose``, ``explain``, ``status``, ``verify`` and ``report`` take; ``frame`` takes one
of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalecurve.bundle.open import open_bundle as open_bundle
    from scalecurve.bundle.open import open_bundles as open_bundles
    from scalecurve.bundle.pack import pack as pack
    from scalecurve.bundle.pack import unpack as unpack
    from scalecurve.checks.compare import compare as compare
    from scalecurve.checks.diagnose import diagnose as diagnose
    from scalecurve.checks.validation import validate as validate
    from scalecurve.checks.verify import verify as verify
    from scalecurve.cluster.pull import pull as pull
    from scalecurve.cluster.watch import watch as watch
    from scalecurve.curves.compute import scaling as scaling
    from scalecurve.curves.cost import cost as cost
    from scalecurve.curves.explain import explain as explain
    from scalecurve.curves.frames import frame as frame
    from scalecurve.curves.progress import status as status
    from scalecurve.features.accuracy.results import training as training
    from scalecurve.features.collectives.allreduce import allreduce as allreduce
    from scalecurve.features.collectives.collectives import collectives as collectives
    from scalecurve.planning.from_manifest import experiment_from as experiment_from
    from scalecurve.planning.plan import plan as plan
    from scalecurve.reporting import report as report
    from scalecurve_importing.import_bundle import import_bundle as import_bundle
    from scalecurve_timelines.expectations import expectations_of as expectations_of
    from scalecurve_timelines.gate import gate as gate
    from scalecurve_timelines.timeline import history as history

_MODULES = {
    "allreduce": "scalecurve.features.collectives.allreduce",
    "collectives": "scalecurve.features.collectives.collectives",
    "compare": "scalecurve.checks.compare",
    "cost": "scalecurve.curves.cost",
    "diagnose": "scalecurve.checks.diagnose",
    "explain": "scalecurve.curves.explain",
    "experiment_from": "scalecurve.planning.from_manifest",
    "expectations_of": "scalecurve_timelines.expectations",
    "frame": "scalecurve.curves.frames",
    "gate": "scalecurve_timelines.gate",
    "history": "scalecurve_timelines.timeline",
    "import_bundle": "scalecurve_importing.import_bundle",
    "open_bundle": "scalecurve.bundle.open",
    "open_bundles": "scalecurve.bundle.open",
    "pack": "scalecurve.bundle.pack",
    "plan": "scalecurve.planning.plan",
    "pull": "scalecurve.cluster.pull",
    "report": "scalecurve.reporting",
    "run": "scalecurve_local",
    "scaling": "scalecurve.curves.compute",
    "status": "scalecurve.curves.progress",
    "training": "scalecurve.features.accuracy.results",
    "unpack": "scalecurve.bundle.pack",
    "validate": "scalecurve.checks.validation",
    "verify": "scalecurve.checks.verify",
    "watch": "scalecurve.cluster.watch",
}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("scalecurve")
    if name not in _MODULES:
        raise AttributeError(f"module 'scalecurve' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        if not _MODULES[name].startswith(str(error.name)):
            raise
        raise ImportError(f"scalecurve.{name} needs the package {error.name}, which is not installed") from error


def __dir__() -> list[str]:
    return sorted(__all__)
