"""How long until `scalecurve --help` has answered?

    python -m benchmarks.first_touch [--runs 10]

The median wall time of whole processes, beside the bar of 0.3 s and beside a bare interpreter, whose time no program
can go below. One run before the others fills the file cache.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

BAR_S = 0.3


def seconds(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def median_of(command: list[str], runs: int) -> float:
    seconds(command)
    return statistics.median(seconds(command) for _ in range(runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    scalecurve = str(Path(sys.executable).with_name("scalecurve"))
    bare = median_of([sys.executable, "-c", ""], runs)
    print(f"median of {runs} runs, wall time in s")
    print(f"   bare interpreter     {bare:6.3f}")
    for words in (["--help"], ["--version"], ["run", "--help"], ["plan", "--help"]):
        found = median_of([scalecurve, *words], runs)
        verdict = "" if words != ["--help"] else f"   bar {BAR_S} s: {'met' if found < BAR_S else 'MISSED'}"
        print(f"   scalecurve {' '.join(words):10}{found:6.3f}{verdict}")


if __name__ == "__main__":
    main()
