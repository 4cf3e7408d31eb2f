"""``python -m scalecurve_worker.process.exec CMD...``: bind this process as a rank, then become the user's command."""

import os
import sys

from scalecurve_worker.process.startup import StartupError, prepare


def main(command: list[str]) -> int:
    """Does not return when the command can be run; cores, threads and death with the parent stay with it."""
    try:
        prepare()
        if not command:
            raise StartupError("scalecurve_worker.process.exec: expected a command, as python train.py")
        sys.stdout.flush()
        os.execvp(command[0], command)
    except (StartupError, OSError) as error:
        _fail(command, error)
    return 127


def _fail(command: list[str], error: Exception) -> None:
    from scalecurve_worker.process.failure import WorkloadError, report
    from scalecurve_worker.process.identity import identify
    from scalecurve_worker.process.trial_spec import out_folder

    if isinstance(error, OSError):
        error = WorkloadError(f"workload.command: cannot run {command[0]!r}: {error.strerror}")
    report(out_folder(), identify().rank, error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
