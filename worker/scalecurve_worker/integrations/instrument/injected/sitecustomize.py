"""Runs at the start of every Python of a measured command, before its script (https://docs.python.org/3/library/site.html).

It only waits for the imports of ``WATCHED``, and imports nothing itself that a script may not want.
"""

import atexit
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = str(Path(__file__).parent)
WATCHED = {
    "torch",
    "torch.distributed.launcher.api",
    "accelerate.data_loader",
    "deepspeed.launcher.runner",
    "deepspeed.runtime.engine",
}


class ImportWatch(MetaPathFinder):
    """Calls ``hooks.imported`` when a module of ``WATCHED`` has been imported."""

    def __init__(self) -> None:
        self._finding: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find what the other finders find, and add a callback after the module's execution."""
        if fullname not in WATCHED or fullname in self._finding:
            return None
        self._finding.add(fullname)  # another finder of this kind asks us in turn
        try:
            others = [finder for finder in sys.meta_path if finder is not self]
            spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        finally:
            self._finding.discard(fullname)
        if spec is not None and spec.loader is not None:
            _call_after(spec.loader)
        return spec


def _call_after(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module  # the class's own is behind it
        execute(module)
        _hooks().imported(module)

    loader.exec_module = exec_module


def _hooks() -> Any:
    if importlib.util.find_spec("scalecurve_worker") is None:
        print(
            f"scalecurve: {sys.executable} has no scalecurve_worker, so its steps cannot be timed: install scalecurve "
            "there, start the command with the Python that has it, or set workload.instrument: log",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)
    from scalecurve_worker.integrations.instrument import hooks

    return hooks


def _watch_end() -> None:
    """At the end, say what was missing if not enough was measured; the first handler to be registered runs last."""
    command = os.environ.get("SCALECURVE_COMMAND_PID") == str(os.getpid())
    status: list[object] = []
    leave = sys.exit

    def remembering(code: Any = None) -> None:
        status[:] = [code]
        leave(code)

    sys.exit = remembering  # type: ignore[assignment]

    def ended() -> None:
        failed = hasattr(sys, "last_value") or bool(status and status[0])
        ours = "scalecurve_worker.integrations.instrument.hooks" in sys.modules
        if not failed and (ours or command) and importlib.util.find_spec("scalecurve_worker") is not None:
            _hooks().ended(command)

    atexit.register(ended)


def _chain() -> None:
    """Run the ``sitecustomize`` that would have been found without ours."""
    sys.path[:] = [path for path in sys.path if path != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _begin() -> None:
    sys.meta_path.insert(0, ImportWatch())
    _watch_end()
    if os.environ.get("SCALECURVE_OWN_RANKS"):
        from scalecurve_worker.integrations.instrument.own_ranks import take_cores

        take_cores()
    _chain()


if __name__ == "sitecustomize":
    _begin()
