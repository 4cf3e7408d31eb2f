"""Commands that start the ranks of a node themselves: spawned processes, torchrun, accelerate launch, deepspeed.

The engine has started one process for each rank already. The first of a node starts the ranks as it would by hand,
and they take the places of all; the other processes end.
"""

import os
from collections.abc import Callable
from typing import Any

from scalecurve_api.contract import CORES_ENV
from scalecurve_api.text import count as plural
from scalecurve_worker.process.identity import identify
from scalecurve_worker.process.injection import OWN_RANKS_ENV
from scalecurve_worker.process.startup import pin, together

# torchrun's, and what it reads itself: the ranks would look for the store of the outer one.
_LAUNCHER_PREFIXES = ("TORCHELASTIC_", "PET_")


def start_own_ranks(launcher: str, count: int | None) -> bool:
    """Return whether ``count`` processes about to be started are the ranks of this node; end all but the first.

    ``count`` is None where it is not known yet.
    """
    from scalecurve_worker.integrations.instrument.leaving import end, refuse, script

    identity = identify()
    local = int(os.environ.get("LOCAL_WORLD_SIZE") or identity.world)
    if OWN_RANKS_ENV in os.environ:
        return False
    if count is not None and count != local:
        refuse(
            f"{script()} starts {plural(count, 'rank')} of its own ({launcher}) at a point with {local} on a node: "
            "pass {workersPerNode} for their number in workload.command, or start the script without its launcher"
        )
    if identity.local_rank > 0:
        end(0)
    os.environ[OWN_RANKS_ENV] = launcher
    for name in [name for name in os.environ if name.startswith(_LAUNCHER_PREFIXES)]:
        del os.environ[name]
    return True


def take_cores() -> None:
    """Keep to the cores of this rank: it was started by a process that keeps to those of the first."""
    local = os.environ.get("LOCAL_RANK", "")
    if local.isdigit():
        pin(int(local), together(os.environ.get(CORES_ENV, ""), os.environ.get("LOCAL_WORLD_SIZE", "")))


class SpawnedRank:
    """A function that runs as a rank of this node, numbered by its first argument; pickled into its process."""

    def __init__(self, function: Callable[..., None], ended: Callable[[], None]) -> None:
        """``ended`` is called when the function has returned."""
        self._function = function
        self._ended = ended

    def __call__(self, index: int, *arguments: Any) -> None:
        first = identify().rank
        os.environ.update(RANK=str(first + index), LOCAL_RANK=str(index))
        del os.environ[OWN_RANKS_ENV]
        take_cores()
        from scalecurve_worker.process.failure import report
        from scalecurve_worker.process.trial_spec import out_folder

        try:
            self._function(index, *arguments)
        except Exception as error:
            report(out_folder(), first + index, error)
            raise
        self._ended()
