"""``python -m scalecurve_worker``: one rank of a built-in program, under any launcher."""

import os
import sys
import traceback

from scalecurve_worker.process.startup import StartupError, prepare


def main() -> int:
    """Bind this process, then run the trial's program; 0, or 1 after saying why not."""
    try:
        prepare()
        _run()
    except Exception as error:
        _fail(error)
        return 1
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


def _fail(error: Exception) -> None:
    from scalecurve_worker.monitor.metrics import MetricsError
    from scalecurve_worker.process.failure import WorkloadError, report
    from scalecurve_worker.process.identity import identify
    from scalecurve_worker.process.trial_spec import out_folder

    if not isinstance(error, WorkloadError | StartupError | MetricsError):
        traceback.print_exception(error)
    report(out_folder(), identify().rank, error)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if status:
        # Teardown of a broken collective library can hang for minutes; all is said and written.
        os._exit(status)
    sys.exit(0)
