"""``scalecurve doctor [FILE]``."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.cluster import cluster_errors, cluster_options
from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import complain, fail, load_experiment, output_option, overlay_option, show
from scalecurve_kube.address import ClusterAddress, has_current_context
from scalecurve_kube.blocking import connect
from scalecurve_kube.errors import ClusterError

if TYPE_CHECKING:
    from scalecurve.render.table import Table
    from scalecurve_api.spec.experiment import ScalingExperiment
    from scalecurve_local.devices.shares import Machine

Row = tuple[str, str, bool | None]
_PACKAGES = ("torch", "nvidia-ml-py", "scikit-learn", "mpi4py", "horovod")
_PROGRAMS = ("mpirun", "nvidia-smi")


@click.command("doctor")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@overlay_option
@click.option("--cluster", "in_cluster", is_flag=True, help="Check the cluster of the kubeconfig instead.")
@cluster_options
@click.option("--oversubscribe", is_flag=True, help="Check as `run --oversubscribe` would.")
@output_option
def command(
    file: Path | None,
    overlays: tuple[Path, ...],
    in_cluster: bool,
    address: ClusterAddress,
    oversubscribe: bool,
    output: str,
) -> None:
    """Check this machine or a cluster, and whether an experiment can run there.

    Checks the cluster if --cluster or an option that names one is set, or if the experiment sets a runner. If a
    kubeconfig has a current context, that cluster is shown next to this machine. Exit code 3 if the experiment cannot
    run.
    """
    if overlays and file is None:
        fail("--overlay requires an experiment FILE", EXIT_INPUT)
    experiment = load_experiment(file, overlays)[0] if file is not None else None
    named = in_cluster or address.explicit
    meant = named or (experiment is not None and experiment.spec.runner is not None)
    tables, blocked = [], False
    if not named:
        here, blocked = _here(experiment, oversubscribe)
        tables.append(here)
    there = _there(experiment, address, meant)
    if there is not None:
        tables.append(there[0])
        # An experiment that names a runner is for a cluster, whatever this machine has.
        blocked = there[1] if meant else blocked
    show(tables, output)
    sys.exit(EXIT_ENVIRONMENT if blocked else 0)


def _there(experiment: ScalingExperiment | None, address: ClusterAddress, meant: bool) -> tuple[Table, bool] | None:
    """The cluster, and whether it blocks the experiment; None without a cluster to look at."""
    if not meant and not has_current_context():
        return None
    from scalecurve.cluster.doctor import doctor, table

    namespace = address.namespace or (experiment.metadata.namespace if experiment else None)
    with cluster_errors():
        try:
            cluster = connect(replace(address, namespace=namespace))
            checks = doctor(cluster, experiment)
        except ClusterError as error:
            if meant:
                raise
            complain(str(error))
            return None
    return table(cluster, checks), any(check.good is False for check in checks)


def _here(experiment: ScalingExperiment | None, oversubscribe: bool) -> tuple[Table, bool]:
    from scalecurve.render.table import Column, Table
    from scalecurve_api.planning.plan import make_plan
    from scalecurve_local import EngineError
    from scalecurve_local.devices.shares import allot
    from scalecurve_local.execution.this_machine import survey

    columns = (Column("what", "What"), Column("found", "Found"), Column("good", "OK", "flag"))
    blocking: list[Row] = []
    try:
        rows = _machine_rows(survey())
    except EngineError as error:
        rows = blocking = [("devices", str(error), False)]
    rows = rows + _software_rows()
    if experiment is not None:
        try:
            allotment = allot(make_plan(experiment).trials, survey(), oversubscribe)
            rows.append((experiment.metadata.name, "can run here: " + "; ".join(allotment.notes), True))
        except EngineError as error:
            blocking = [(experiment.metadata.name, str(error), False)]
            rows += blocking
    return Table("doctor", "This machine", columns, tuple(rows)), bool(blocking)


def _machine_rows(machine: Machine) -> list[Row]:
    cores = machine.cores
    quota = "" if cores.quota is None else f", limited to {cores.quota:g} by a control group"
    names = ", ".join(f"{gpu.name} {gpu.uuid}" for gpu in machine.gpus)
    return [
        ("system", f"{platform.system()} {platform.release()}, Python {platform.python_version()}", True),
        ("cores", f"{len(cores.siblings)} physical, {cores.threads} hardware threads{quota}", True),
        ("GPUs", f"{len(machine.gpus)}: {names}" if names else "none: workers run on CPU cores", True),
    ]


def _software_rows() -> list[Row]:
    rows: list[Row] = []
    for package in _PACKAGES:
        try:
            rows.append((package, importlib.metadata.version(package), True))
        except importlib.metadata.PackageNotFoundError:
            rows.append((package, "not installed", False if package == "torch" else None))
    for program in _PROGRAMS:
        beside = Path(sys.executable).with_name(program)
        path = shutil.which(program) or (str(beside) if beside.exists() else None)
        rows.append((program, "found" if path else "not found", True if path else None))
    return rows
