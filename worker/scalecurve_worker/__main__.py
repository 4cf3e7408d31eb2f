"""``python -m scalecurve_worker [CMD...]``: one rank of a built-in program, or of a command, under any launcher."""

import atexit
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from scalecurve_api.contract import INSTRUMENT_ENV
from scalecurve_worker.process.injection import inject
from scalecurve_worker.process.startup import StartupError, enter_working_dir, prepare

_FINALIZED = frozenset(["mpi4py", "horovod"])


def main(command: Sequence[str] = ()) -> int:
    """Bind this process, then become the command or run the trial's program; 0, 1 or 127 after saying why not.

    A command keeps the cores, the threads and death with the parent.
    """
    try:
        prepare()
        if command:
            enter_working_dir()
            if os.environ.get(INSTRUMENT_ENV) == "auto":
                inject()
            if os.environ.get(INSTRUMENT_ENV) == "log":
                from scalecurve_worker.launch.reported_run import run_reported

                return run_reported(command)
            os.execvp(command[0], [*command])
        _run()
    except Exception as error:
        _fail(command, error)
        return 127 if command else 1
    return 0


def _run() -> None:
    # Loaded only now: OpenMP reads its thread count once, and threads inherit the cores of the one that makes them.
    from scalecurve_api.contract import TRIAL_ENV
    from scalecurve_worker.process.failure import WorkloadError
    from scalecurve_worker.process.programs import program
    from scalecurve_worker.process.trial_spec import read_trial

    trial = read_trial()
    if trial is None:
        raise WorkloadError(f"{TRIAL_ENV} is not set: it names the trial's JSON, which an engine writes")
    os.environ.update(trial.workload.env)
    program(trial.workload)(trial)


def _fail(command: Sequence[str], error: Exception) -> None:
    from scalecurve_worker.monitor.metrics import MetricsError
    from scalecurve_worker.process.failure import WorkloadError, report
    from scalecurve_worker.process.identity import identify
    from scalecurve_worker.process.trial_spec import out_folder

    if command and isinstance(error, OSError):
        error = WorkloadError(f"workload.command: cannot run {command[0]!r}: {error.strerror}")
    if not isinstance(error, WorkloadError | StartupError | MetricsError):
        traceback.print_exception(error)
    report(out_folder(), identify().rank, error)


def end(status: int) -> NoReturn:
    """End this process at once, for all is said and written.

    Taking torch apart takes most of a second, and a broken collective library can hang in it for minutes. MPI alone has
    to see the interpreter end, or mpirun takes a good rank for one that broke off.
    """
    if status == 0 and not _FINALIZED.isdisjoint(sys.modules):
        sys.exit(0)
    if status == 0:
        atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    end(main(sys.argv[1:]))
