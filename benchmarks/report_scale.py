"""How long a whole report takes, and how much memory, over millions of step rows.

    python -m benchmarks.report_scale [--rows 10_000_000] [--keep FOLDER]

200 trials (2 modes, 5 worker counts, 4 precisions, 5 repetitions) are generated into a temporary folder, then the
report is written by a fresh process whose wall time and peak resident memory are printed.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

WORKERS = [1, 2, 4, 8, 16]
PRECISIONS = ["fp32", "tf32", "bf16", "fp16"]
REPETITIONS = 5
WINDOWS = 5
WARMUP = 20
REPORT = """
import sys
from pathlib import Path
from scalecurve.bundle.open import open_bundles
from scalecurve.reporting import report
files = report(open_bundles([sys.argv[1]]), Path(sys.argv[2]))
print(f"{len(files)} files, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB")
"""


def generate(folder: Path, rows: int) -> None:
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_part, [folder] * 20, [rows] * 20, range(20), [20] * 20))


def _part(folder: Path, rows: int, part: int, parts: int) -> None:
    """Every ``parts``-th trial, so that two processes share the work."""
    from scalecurve_api.planning.plan import make_plan
    from tests.analysis.synthetic import Truth, experiment, write_bundle

    steps = rows // (2 * len(PRECISIONS) * REPETITIONS * sum(WORKERS))
    of = experiment(
        "scale",
        workers=WORKERS,
        repetitions=REPETITIONS,
        windows=WINDOWS,
        steps_per_window=(steps - WARMUP) // (2 * WINDOWS),
        matrix={"precision": PRECISIONS},
        cost={"perWorkerHour": 2.5, "datasetSamples": 1_281_167, "epochs": 90},
    )
    absent = [trial.name for index, trial in enumerate(make_plan(of).trials) if index % parts != part]
    write_bundle(folder, of, Truth(energy_w=300.0), absent=absent)


def measure(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as out:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", REPORT, str(folder), out], check=True)
        wall = time.perf_counter() - begin
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"wall {wall:.2f} s, CPU {usage.ru_utime + usage.ru_stime:.2f} s, peak RSS {usage.ru_maxrss / 1024:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--keep", type=Path, help="generate here, or use what is here, and keep it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        if not (folder / "experiment.yaml").exists():
            begin = time.perf_counter()
            # A child's peak counts only once it is waited for, so the generator's children must not be ours.
            code = "import sys; from benchmarks.report_scale import *; generate(Path(sys.argv[1]), int(sys.argv[2]))"
            command = [sys.executable, "-c", code, str(folder), str(arguments.rows)]
            subprocess.run(command, check=True, cwd=ROOT)
            print(f"generated {arguments.rows:,} rows in {time.perf_counter() - begin:.1f} s")
        subprocess.run([sys.executable, "-m", "benchmarks.report_scale", "--measure", str(folder)], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]))
    else:
        main()
