"""How a measured command ends: all ranks together when enough is measured, or at once with a line that says why."""

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from scalecurve_api.contract import ready_file
from scalecurve_worker.process.failure import WorkloadError, report
from scalecurve_worker.process.identity import identify
from scalecurve_worker.process.trial_spec import out_folder
from scalecurve_worker.rendezvous.communicator import Communicator

GRACE_S = 30.0
"""What a script may take for its ``finally`` blocks and exit handlers once its records are written."""
PAGE = "docs/how-to/measure-without-edits.md"


def script() -> str:
    """Return the name of the script that runs in this process."""
    name = Path(sys.argv[0] if getattr(sys, "argv", None) else "").name
    return "the command" if name in ("", "-c", "-m") else name


def is_recorded() -> bool:
    """Return whether a process of this rank has joined the trial."""
    folder = out_folder()
    return folder is not None and (folder / ready_file(identify().rank)).exists()


def no_torch() -> str:
    """Return the error for a command that never imported torch."""
    return (
        f"{script()} ended without importing torch, so there was nothing to time: set workload.instrument: log to read "
        f"its own numbers, or call the SDK in it ({PAGE})"
    )


def leave(communicator: Communicator, evaluation_s: float) -> NoReturn:
    """End this process with exit code 0, through the script's ``finally`` blocks, and by force if it hangs there.

    ``evaluation_s`` is the time of evaluations between steps, which is in none of them.
    """
    if communicator.rank == 0:
        without = f", without {evaluation_s:.3g} s of evaluation between steps" if evaluation_s else ""
        print(f"scalecurve: every window of {script()} is measured{without}; it ends here", file=sys.stderr, flush=True)
    with suppress(Exception):
        # Rank 0 may hold the store that the others still ask.
        communicator.barrier()
    threading.Thread(target=_force, daemon=True).start()
    raise SystemExit(0)


def refuse(message: str) -> NoReturn:
    """End this process with an error: it cannot be measured. No handler of the script's sees it."""
    report(out_folder(), identify().rank, WorkloadError(message))
    end(1)


def _force() -> None:
    time.sleep(GRACE_S)
    print(f"scalecurve: {script()} was still busy {GRACE_S:.0f} s after its last step, and was ended", file=sys.stderr)
    end(0)


def end(status: int) -> NoReturn:
    """End this process now, and run nothing more of the script's."""
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)
