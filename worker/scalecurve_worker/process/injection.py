"""Puts the hooks into a command's environment; nothing but the standard library is loaded."""

import os
from collections.abc import MutableMapping
from pathlib import Path

COMMAND_PID_ENV = "SCALECURVE_COMMAND_PID"
"""Process of the command itself: exec keeps its number, and none of its children has it."""
OWN_RANKS_ENV = "SCALECURVE_OWN_RANKS"
"""What in the command starts the ranks of this node, if not the engine: cores are then taken by each of them."""
FOLDER = Path(__file__).parents[1] / "integrations" / "instrument" / "injected"


def inject(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let every Python that starts with this environment find our ``sitecustomize`` first, which runs its own too."""
    paths = [str(FOLDER), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    environment[COMMAND_PID_ENV] = str(os.getpid())
    environment.pop(OWN_RANKS_ENV, None)
