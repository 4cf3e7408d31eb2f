"""The SDK that runs inside a training process: three lines measure any script.

    import scalecurve_worker as scalecurve

    with scalecurve.attach(model) as bench:   # joins the trial; without an engine it measures by itself
        for batch in bench.steps(loader):     # repeats the loader until every window is measured
            ...                               # one optimizer update

Nothing is loaded before it is asked for: the entry point must bind the process to its cores first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalecurve_api.registry import load

if TYPE_CHECKING:
    from scalecurve_worker.sdk.attach import attach
    from scalecurve_worker.sdk.bench import Bench

__all__ = ["Bench", "attach"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return load(f"scalecurve_worker.sdk.{name.lower()}:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
