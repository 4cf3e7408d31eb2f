"""Put known causes into a training, and print whether `scalecurve explain` found each, and how large.

python -m benchmarks.injected --runs 20
python -m benchmarks.injected --runs 3 --only loader --only rank
python -m benchmarks.injected --runs 1 --gpu --only loader --only host --only batch --bundles FOLDER
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from benchmarks.injected.cases import CASES, can_throttle, run


def main() -> None:
    """One row a cause."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs of each cause")
    parser.add_argument("--windows", type=int, default=2, help="of each trial")
    parser.add_argument("--steps", type=int, default=10, help="of each window")
    parser.add_argument("--only", action="append", choices=list(CASES), help="a cause; repeatable (default: all)")
    parser.add_argument("--gpu", action="store_true", help="ResNet-50 on one and two GPUs")
    parser.add_argument("--bundles", type=Path, help="a folder to keep the bundles in, one for each run of a cause")
    options = parser.parse_args()
    chosen = [CASES[name] for name in options.only or CASES]
    if not can_throttle():
        print("no throttled link: it takes root, unshare, ip and tc with tbf")
        chosen = [case for case in chosen if case.link_bits is None]
    print(
        f"{'cause':8} {'term':14} {'largest':>8} {'in 20 %':>8} {'found/injected: median':>24} "
        f"{'lowest':>8} {'highest':>8}"
    )
    for case in chosen:
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.bundles / case.name if options.bundles else Path(temporary)
            results = [
                run(case, folder / str(index), options.windows, options.steps, options.gpu)
                for index in range(options.runs)
            ]
        right = sum(each.largest == case.kind for each in results)
        near = sum(abs(each.ratio - 1) <= 0.2 for each in results)
        ratios = [each.ratio for each in results]
        print(
            f"{case.name:8} {case.kind:14} {f'{right}/{len(results)}':>8} {f'{near}/{len(results)}':>8} "
            f"{statistics.median(ratios):24.3f} {min(ratios):8.3f} {max(ratios):8.3f}",
            flush=True,
        )
        for other in sorted({each.largest for each in results} - {case.kind}):
            print(f"{'':8} instead: {other}")


if __name__ == "__main__":
    main()
