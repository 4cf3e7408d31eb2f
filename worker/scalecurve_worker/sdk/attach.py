"""``attach``: join a trial from any training script, with the framework that it has loaded."""

import sys
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from scalecurve_api.registry import load
from scalecurve_worker.process.failure import WorkloadError, explain, report_uncaught, write_failure
from scalecurve_worker.process.identity import RankIdentity, identify
from scalecurve_worker.process.trial_spec import out_folder
from scalecurve_worker.record.session import Session
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.sdk.counts import Unit
from scalecurve_worker.sdk.observation import Observer
from scalecurve_worker.steps.timing import HostClock

_attached: list[tuple[Path | None, Bench]] = []


def attach(model: Any = None, *, unit: Unit = "samples", checksum: str | None = None) -> Bench:
    """Join the trial that the environment names, or measure alone; call it after torch.distributed is initialized.

    From here on errors that end the process are reported to the engine.

    Args:
        model: A torch module, as it is trained: on its device, and wrapped. It tells which device to time and what a
            step is made of (parameters, FLOPs, memory, traffic, exposed communication), and its parameters are
            compared over all ranks at the end.
        unit: With ``tokens``, throughput is in tokens per second; samples are still counted, and compared with the
            experiment's batch.
        checksum: Digest of the parameters as they are now, for programs whose model is not torch's: with the one that
            ``finish`` is passed it shows that the program trained.

    Returns:
        The bench. A second call in the same trial returns the same one, with ``model`` if it has none, so after
        ``finish`` nothing more is measured.

    Raises:
        WorkloadError: a trial that cannot be read.
        CommunicatorError: ranks that cannot reach each other.
        MetricsError: a metrics port that is taken.
        ValueError: a unit other than samples or tokens.
    """
    out = out_folder()
    if (before := attached()) is not None:
        print("scalecurve: attach() was called again: call it once, outside of the epoch loop", file=sys.stderr)
        if model is not None and not before.complete:
            before.model(model)
        return before
    launched = identify()
    report_uncaught(out, launched.rank)
    if launched.world > 1 and parent_process() is not None:
        raise _spawn_error(out, launched)
    if "torch" in sys.modules:
        bench: Bench = load("scalecurve_worker.torch.attach:attach_script")(model, checksum, unit)
    else:
        session = Session()
        bench = Bench(session, HostClock(session.unix), observer=Observer(checksum), unit=unit)
    _attached.append((out, bench))
    return bench


def _spawn_error(out: Path | None, launched: RankIdentity) -> WorkloadError:
    error = WorkloadError(
        f"the script starts ranks of its own (multiprocessing), and {launched.world} were started already: do not "
        "spawn, but read RANK, LOCAL_RANK and WORLD_SIZE; workload.launcher starts the ranks"
    )
    if out is not None:
        # multiprocessing catches it, and the process that reports it has not attached.
        write_failure(out, explain(launched.rank, error))
    return error


def attached() -> Bench | None:
    """Return this process's bench in the trial of the environment; None without a trial, and before ``attach``."""
    out = out_folder()
    return next((bench for folder, bench in _attached if folder == out), None) if out is not None else None
