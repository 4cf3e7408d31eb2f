"""What `scalecurve history` finds of what changed, how often it alarms for nothing, and its time for 200 bundles.

    python -m benchmarks.history [--draws 400] [--seed 1] [--keep FOLDER] [--only rates|bundles]

1. Rates, on simulated sessions of one experiment with six points (their sessions' noise is common but for a fifth of
   it): false alarms per experiment under several distributions, and detection, place and size of one change.
2. 200 bundles in the engines' own format, half of them packed: ten experiments with twenty sessions each over two
   years, some with a real change. Printed are what was found and what was not, with the time of the first reading, of
   the second, and of the site, each in a fresh process.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
SESSION_SD, OWN_SHARE, POINTS = 0.005, 0.2, 6
EXPERIMENTS, SESSIONS = 10, 20
TWO_YEARS_NS = 730 * 86_400 * 10**9
CHANGES: dict[int, tuple[tuple[int, int, float], ...]] = {
    1: ((10, 1, 0.97),),
    2: ((7, 1, 1.02),),
    3: ((12, 2, 0.98),),
    4: ((6, 1, 0.95), (13, 1, 1 / 0.95)),
    5: ((15, 1, 0.99),),
}
"""Experiment -> (first session, least worker count, throughput over the one before); the other five do not change."""
Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
NOISES: tuple[tuple[str, Draw], ...] = (
    ("normal", np.random.Generator.standard_normal),
    ("heavy tails (t, 3 degrees)", lambda rng, shape: rng.standard_t(3, shape)),
    ("skewed (exponential)", lambda rng, shape: rng.standard_exponential(shape) - 1),
    (
        "two kinds of machines, 1 % apart",
        lambda rng, shape: 2 * (rng.random(shape) < 0.3) + 0.3 * rng.normal(size=shape),
    ),
)


def drawn(rng: np.random.Generator, draw: Draw, sessions: int, at: int | None = None, change: float = 1.0) -> Array:
    """The log throughput of each point and session; `change` from session `at` on at half of the points."""
    shared, own = draw(rng, (1, sessions)), draw(rng, (POINTS, sessions))
    values = SESSION_SD * (shared + OWN_SHARE * own)
    if at is not None:
        values[: POINTS // 2, at:] += math.log(change)
    return np.asarray(values)


def print_false_alarms(draws: int, seed: int) -> None:
    from scalecurve.statistics.change_points import change_points

    print(f"False alarms: % of experiments without a change that show one (stated: 5 %), {draws} draws each")
    counts = (10, 20, 50)
    print(f"   {'noise of sessions':36}" + "".join(f"{f'{count} sessions':>14}" for count in counts))
    for name, draw in NOISES:
        cells = []
        for count in counts:
            rng = np.random.default_rng(seed)
            alarms = sum(bool(change_points(drawn(rng, draw, count).tolist())) for _ in range(draws))
            cells.append(f"{100 * alarms / draws:14.1f}")
        print(f"   {name:36}" + "".join(cells), flush=True)


def print_detection(draws: int, seed: int) -> None:
    from scalecurve.statistics.change_points import change_points

    print(f"\nDetection: one change in mid-history at three of six points, session sd {SESSION_SD:.1%}, {draws} draws")
    print(
        f"   {'sessions':>8}{'change':>9}{'found at a point':>18}{'place covered':>15}{'size covered':>14}"
        f"{'other points':>14}"
    )
    for count in (10, 20, 50):
        for change in (0.99, 0.98, 0.97):
            rng = np.random.default_rng(seed)
            found = place = size = others = 0
            for _ in range(draws):
                at = count // 2
                changes = change_points(drawn(rng, np.random.Generator.standard_normal, count, at, change).tolist())
                first = {c.curve: c for c in reversed(changes) if c.curve < POINTS // 2}
                found += len(first)
                place += sum(c.first <= at <= c.last for c in first.values())
                size += sum(c.ratio.covers(change) for c in first.values())
                others += any(c.curve >= POINTS // 2 for c in changes)
            share = [100 * found / draws / (POINTS // 2), *(100 * n / max(1, found) for n in (place, size))]
            row = "".join(f"{cell:{width}.1f}" for cell, width in zip(share, (18, 15, 14), strict=True))
            print(f"   {count:8}{change - 1:9.0%}{row}{100 * others / draws:14.1f}", flush=True)


def generate(folder: Path, seed: int) -> None:
    """Ten experiments of twenty sessions; every other bundle is packed."""
    from scalecurve.bundle.pack import pack
    from tests.analysis.timelines.past import write_past

    for number in range(EXPERIMENTS):

        def factor(session: int, workers: int, number: int = number) -> float:
            changes = CHANGES.get(number, ())
            return math.prod(by for at, least, by in changes if session >= at and workers >= least)

        paths = write_past(
            folder / f"experiment-{number}",
            SESSIONS,
            name=f"experiment-{number}",
            workers=(1, 2, 4),
            repetitions=3,
            factor=factor,
            seed=seed + number,
            session_sd=SESSION_SD,
            tables=True,
            every_ns=TWO_YEARS_NS // SESSIONS,
        )
        for path in paths[::2]:
            pack(path, path.with_suffix(".zip"))
            shutil.rmtree(path)


def print_found(folder: Path, catalog: Path) -> None:
    """What `history` says of each experiment, beside what was put in."""
    from scalecurve.timelines.timeline import history

    found = history([folder], catalog=catalog)
    hits = misses = misplaced = false = alarmed = 0
    for number, timeline in enumerate(found.timelines):
        true = [(at, w, by) for at, least, by in CHANGES.get(number, ()) for w in (1, 2, 4) if w >= least]
        told = [(change.first, change.last, curve.workers, change.ratio.value) for curve, change in timeline.changes]
        hit = [t for t in true if any(first <= t[0] <= last and t[1] == w for first, last, w, _ in told)]
        wrong = [c for c in told if not any(c[0] <= at <= c[1] and c[2] == w for at, w, _ in true)]
        # Within two sessions of a change that was not found otherwise: found, and dated wrongly.
        missed = [t for t in true if t not in hit]
        near = [c for c in wrong if any(c[2] == w and c[0] - 2 <= at <= c[1] + 2 for at, w, _ in missed)]
        hits, misses, misplaced = hits + len(hit), misses + len(missed), misplaced + len(near)
        false, alarmed = false + len(wrong) - len(near), alarmed + (len(wrong) > len(near))
        wanted = "; ".join(
            f"{by - 1:+.1%} from session {at}, {least}+ workers" for at, least, by in CHANGES.get(number, ())
        )
        print(
            f"   {timeline.experiment:14} {len(hit)} of {len(true)} found, {len(near)} dated wrongly, "
            f"{len(wrong) - len(near)} false   {wanted or 'nothing changed'}"
        )
    print(
        f"   in all: {hits} of {hits + misses} changes of points found, {misplaced} dated wrongly, "
        f"{false} false in {alarmed} of {len(found.timelines)} experiments (their points share sessions)"
    )


def timed(words: list[str], cache: Path) -> str:
    """Wall and processor seconds: on a busy machine they differ."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "scalecurve", *words],
        check=True,
        stdout=subprocess.DEVNULL,
        env=dict(os.environ, SCALECURVE_CACHE=str(cache)),
        cwd=ROOT,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{time.perf_counter() - begin:6.1f} s ({busy:.1f} s of processor time)"


def print_bundles(folder: Path, seed: int) -> None:
    bundles = folder / "bundles"
    if not bundles.exists():
        begin = time.perf_counter()
        generate(bundles, seed)
        print(f"   generated {EXPERIMENTS * SESSIONS} bundles in {time.perf_counter() - begin:.1f} s")
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    print(f"   history, every bundle read:   {timed(['history', str(bundles)], cache)}")
    print(f"   history, nothing read again:  {timed(['history', str(bundles)], cache)}")
    site = ["history", str(bundles), "--site", str(folder / "site")]
    print(f"   history and site:             {timed(site, cache)}")
    files = [path for path in (folder / "site").rglob("*") if path.is_file()]
    print(f"   the site: {len(files)} files, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB\n")
    print_found(bundles, cache / "history.sqlite")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="generate here, or use what is here, and keep it")
    parser.add_argument("--only", choices=("rates", "bundles"))
    arguments = parser.parse_args()
    if arguments.only != "bundles":
        print_false_alarms(arguments.draws, arguments.seed)
        print_detection(arguments.draws, arguments.seed)
    if arguments.only != "rates":
        print(f"\n{EXPERIMENTS * SESSIONS} bundles over two years, session sd {SESSION_SD:.1%}")
        with tempfile.TemporaryDirectory() as temporary:
            print_bundles(arguments.keep or Path(temporary), arguments.seed)


if __name__ == "__main__":
    main()
