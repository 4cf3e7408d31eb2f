"""How long repositories of published results take to import, what is proved, and whether another reading agrees.

    python -m benchmarks.corpus_import [PATH...] [--against CSV] [--printed] [--points 300] [--runs 10]

Without a path it writes a round of that many points with runs of 400 log lines, and imports that. The bars: 60 s and
500 MiB for 300 points, in proportion for others.

`--against` names a table with the columns round, submitter, system, benchmark, gpus, global_batch, minutes (their mean)
and rates (of every run, with blanks between). Compared are devices, batch, each rate within 1 in 10,000 and the minutes
to the printed digit; a rate that the import keeps without a unit is compared as such. `--printed` compares times to
train with those that were printed elsewhere, to the printed digit.
"""

from __future__ import annotations

import argparse
import csv
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from scalecurve.corpus.copies import joined
from scalecurve.corpus.corpus_file import write_corpus
from scalecurve.corpus.mlperf_points import import_results
from scalecurve.corpus.schema import Corpus, PublishedPoint, PublishedRun
from tests.analysis.corpus.synthetic_round import START, event, log, logs, write_bare

BAR_S, BAR_MIB, BAR_POINTS = 60.0, 500, 300
CLOSE = 1e-4
PRINTED = (
    # source, submitter, system, benchmark, minutes as printed
    ("mlperf-5.0", "NVIDIA", "eos-dfw_n1024_ngc25.01_nemo", "llama31_405b", "20.8"),
    ("mlperf-5.0", "NVIDIA", "tyche_ngpu512_ngc25.04_nemo", "llama2_70b_lora", "0.56"),
    ("mlperf-5.0", "NVIDIA", "tyche_ngpu512_ngc25.04_nemo", "stable_diffusion", "1.04"),
    ("mlperf-5.0", "NVIDIA", "tyche_ngpu8_ngc25.04_nemo", "llama2_70b_lora", "11.145"),
    ("mlperf-5.0", "AMD", "MI325X_EPYC_9575F_pytorch", "llama2_70b_lora", "22.04"),
    ("mlperf-5.0", "AMD", "MI300X_EPYC_9575F_pytorch", "llama2_70b_lora", "29.25"),
    ("mlperf-5.0", "MangoBoost", "MI300X-LLMBoost-GPUBoost-4node", "llama2_70b_lora", "10.91"),
    ("mlperf-5.0", "Supermicro", "AS-4125GS-TNHR2-LCC", "llama2_70b_lora", "23.08"),
    ("mlperf-5.0", "HPE", "HPE-Cray-XD670-H200-SXM5-141GB_n1_24.09", "llama2_70b_lora", "26.10"),
    ("mlperf-4.0", "smc", "1xSMC-H100-SXM-80GB", "llama2_70b_lora", "29.10069"),
    ("mlperf-4.1", "NVIDIA", "eos_ngc24.09_nemo", "llama2_70b_lora", "27.93"),
    ("mlperf-4.1", "NVIDIA", "b200_preview_nemo", "llama2_70b_lora", "12.958"),
    ("mlperf-4.1", "NVIDIA", "b200_n8_preview_nemo", "gpt3", "193.738"),
    ("mlperf-4.1", "Google", "cloud-tpu-v5p-4096-maxtext", "gpt3", "29.616"),
    ("mlperf-4.1", "Google", "cloud-tpu-trillium-2048-maxtext", "gpt3", "27.330"),
)
"""NVIDIA's blog on 5.0 (the first three), AMD's (the next six, and 27.93), smc.co on 4.0, maxmazo.com on 4.1."""


def main() -> int:
    """Import, and print a line for everything that was counted or compared; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", metavar="PATH", nargs="*", type=Path)
    parser.add_argument("--against", type=Path, help="table of another reading")
    parser.add_argument("--printed", action="store_true", help="compare times to train with printed ones")
    parser.add_argument("--points", type=int, default=BAR_POINTS, help="of the round that is written")
    parser.add_argument("--runs", type=int, default=10, help="of each of its points")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = options.paths or [written_round(Path(folder), options.points, options.runs)]
        began = time.perf_counter()
        imports = [import_results(path) for path in paths]
        corpus, copies = joined(each.corpus for each in imports)
        write_corpus(corpus, Path(folder) / "a.corpus")
        seconds = time.perf_counter() - began
        size = (Path(folder) / "a.corpus").stat().st_size
    points = [point for each in imports for point in each.corpus.points]
    print_counts(corpus, points, copies)
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    share = max(1.0, len(points) / BAR_POINTS)
    print(
        f"{seconds:.1f} s (bar {BAR_S * share:.0f}), peak {mib:.0f} MiB (bar {BAR_MIB}), corpus {size / 1024:.0f} KiB"
    )
    if options.against:
        print_agreement(points, options.against)
    if options.printed:
        print_printed(points)
    return int(seconds > BAR_S * share or mib > BAR_MIB)


def print_counts(corpus: Corpus, points: list[PublishedPoint], copies: list[str]) -> None:
    """What was read, what of it is proved, and what was refused why."""
    runs = sum(len(point.runs) for point in corpus.points)
    steps = sum(len(run.step_s) for point in corpus.points for run in point.runs)
    aliases = sum(len(point.aliases) for point in points)
    print(f"{len(corpus.points)} points, {runs} runs, {steps} step times")
    print(f"{aliases} copies within a round, {len(copies)} between rounds")
    print(f"{sum(point.overlaps > 0 for point in corpus.points)} points with runs at the same time")
    for what in ("basis", "reason"):
        for text, count in Counter(getattr(point, what) for point in corpus.points).most_common():
            print(
                f"{count:5} {'proved' if what == 'basis' else 'refused'}: {text}" if text else "", end="\n" * bool(text)
            )


def print_agreement(points: list[PublishedPoint], table: Path) -> None:
    """A line for each difference to the table, and how many points have none."""
    ours = {(point.source, point.submitter, point.system, point.benchmark): point for point in points}
    named = {tuple(alias.split("/", 1)): point for point in points for alias in point.aliases}
    same, rows = 0, 0
    rounds = set()
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows += 1
            key = (f"mlperf-{row['round'].removeprefix('v')}", row["submitter"], row["system"], row["benchmark"])
            rounds.add(key[0])
            point = ours.pop(key, None) or named.get((row["submitter"], row["system"]))
            differing = ["missing"] if point is None else list(differences(point, row))
            same += not differing
            if differing:
                print(f"  {'/'.join(key)}: {'; '.join(differing)}")
    more = [key for key, point in ours.items() if key[0] in rounds and any(map(_figure, point.runs))]
    for key in more:
        print(f"  {'/'.join(key)}: not in {table.name}")
    print(f"{same} of {rows} points as in {table.name}; {len(more)} with a rate that it does not have")


def differences(point: PublishedPoint, row: dict[str, str]) -> Iterator[str]:
    """What differs between a point and a row."""
    for name, value in (("gpus", point.workers), ("global_batch", point.global_batch)):
        if int(row[name]) != value:
            yield f"{name} {value}, not {row[name]}"
    theirs = [float(rate) for rate in row["rates"].split()]
    rates = [rate for run in point.runs if (rate := _figure(run))]
    if len(theirs) != len(rates):
        yield f"{len(rates)} rates, not {len(theirs)}"
    elif any(abs(ours / other - 1) > CLOSE for ours, other in zip(rates, theirs, strict=True)):
        yield f"first rate {rates[0]:.6g}, not {theirs[0]:.6g}"
    minutes = [run.minutes for run in point.runs if run.minutes is not None]
    if minutes and abs(fmean(minutes) - float(row["minutes"])) > 0.0051:
        missed = len(point.runs) - len(minutes)
        yield f"mean of {fmean(minutes):.2f} minutes over {len(minutes)} runs ({missed} missed), not {row['minutes']}"


def _figure(run: PublishedRun) -> float | None:
    return run.rate or run.relative


def print_printed(points: list[PublishedPoint]) -> None:
    """Each time to train beside the one that was printed."""
    ours = {(point.source, point.submitter, point.system, point.benchmark): point for point in points}
    agreed = 0
    for *key, printed in PRINTED:
        point = ours.get((key[0], key[1], key[2], key[3]))
        minutes = point.minutes_to_target if point else None
        digits = len(printed.partition(".")[2])
        same = minutes is not None and f"{minutes:.{digits}f}" == printed
        agreed += same
        print(f"  {'/'.join(key)}: {minutes}, printed {printed}{'' if same else ', differs'}")
    print(f"{agreed} of {len(PRINTED)} times to train as printed")


def written_round(folder: Path, points: int, runs: int) -> Path:
    """A bare repository; a log has 400 lines, most of them of no interest."""
    noise = "\n".join(event(START - 10, "init_start", value=number) for number in range(380)).encode()
    files = {}
    for point in range(points):
        for name, data in logs(f"system{point}", runs=0).items():
            files[name] = data
        for run in range(runs):
            text = log(start=START + 1e5 * point + 1e3 * run, step_s=0.5 + point / 1000)
            files[f"Acme/results/system{point}/llama2_70b_lora/result_{run}.txt"] = noise + b"\n" + text
    return write_bare(folder / "round", files)


if __name__ == "__main__":
    sys.exit(main())
