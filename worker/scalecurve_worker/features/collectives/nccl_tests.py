"""nccl-tests beside our own measurement: the same collectives and sizes on the same GPUs, by rank 0 for all of them.

Its programs drive every GPU of one machine from one process; over several machines they need a build with MPI.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

from scalecurve_api.features.collectives.facts import CollectiveRow
from scalecurve_api.features.collectives.fields import CollectivesWorkload, Payload, Sizes
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.features.collectives.nccl_tests_command import PROGRAMS, TYPES
from scalecurve_api.features.collectives.nccl_tests_output import parse_results

TOOL = "nccl-tests"
_PATIENCE_S = 600


def why_not(workload: CollectivesWorkload, hosts: Sequence[str], visible_gpus: int) -> str | None:
    """Return why nccl-tests cannot run here; None where it can."""
    if missing := [name for kind in workload.collectives if shutil.which(name := PROGRAMS[kind]) is None]:
        return f"not on PATH: {', '.join(missing)}"
    if workload.sizes.payload is not Payload.sizes:
        return f"it has no payload {workload.sizes.payload.value}"
    if len(set(hosts)) > 1:
        return f"ranks are on {len(set(hosts))} machines"
    if visible_gpus < len(hosts):
        return f"rank 0 sees {visible_gpus} of {len(hosts)} GPUs"
    return None


def measure(workload: CollectivesWorkload, workers: int) -> tuple[list[CollectiveRow], dict[str, str]]:
    """Measure rows of every collective, and tell why some have none."""
    rows: list[CollectiveRow] = []
    failures: dict[str, str] = {}
    for kind in workload.collectives:
        try:
            done = subprocess.run(
                command(kind, workload.sizes, workers),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE_S,
                env={name: value for name, value in os.environ.items() if not name.startswith("NCCL_DEBUG")},
                check=True,
            )
        except subprocess.CalledProcessError as error:
            failures[kind.value] = f"exit status {error.returncode}: {(error.stderr or error.stdout)[-300:].strip()}"
        except (OSError, subprocess.TimeoutExpired) as error:
            failures[kind.value] = str(error)
        else:
            rows += rows_of(kind, done.stdout, workers, workload.sizes.iterations)
    return rows, failures


def command(kind: Collective, sizes: Sizes, workers: int) -> list[str]:
    """Return the command for as long a ladder of sizes as ours, checked as well."""
    ladder = ["-b", str(sizes.min_bytes), "-e", str(sizes.max_bytes), "-f", str(sizes.factor)]
    calls = ["-n", str(sizes.iterations), "-w", str(sizes.warmup), "-c", "1"]
    return [PROGRAMS[kind], *ladder, *calls, "-g", str(workers), "-d", TYPES[sizes.dtype]]


def rows_of(kind: Collective, text: str, workers: int, iterations: int) -> Iterator[CollectiveRow]:
    """Parse the rows it printed; its mean over calls stands for the median, the minimum and p95."""
    for size, in_place, cells, _ in parse_results(text.splitlines()):
        if size == 0 or cells.get("time", "N/A") == "N/A":
            continue
        time_us, wrong = float(cells["time"]), cells.get("#wrong", "N/A")
        if time_us <= 0:
            continue
        algbw = size / time_us / 1e3
        yield CollectiveRow(
            collective=kind,
            tool=TOOL,
            bytes=size,
            in_place=in_place,
            iterations=iterations,
            time_us_median=time_us,
            time_us_min=time_us,
            time_us_p95=time_us,
            algbw=algbw,
            busbw=algbw * kind.bus_factor(workers),
            errors=0 if wrong == "N/A" else int(float(wrong)),
        )
