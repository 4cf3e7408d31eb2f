"""Every layout of small models against one process: gpt2_tiny, llama_tiny, mixture_tiny and resnet20.

python -m benchmarks.layout_equality 1 2 4 8

Ranks are processes on this machine's CPUs, also where it has fewer cores: nothing here is a time. Prints one row for a
worker count and model, with the largest relative errors of all its layouts, and what is Invalid; leaves 1 where one is.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.worker.extras.layouts.every_layout import MODELS, every_layout
from tests.worker.extras.layouts.runs import run
from tests.worker.trial_series import Results


def loss_error(results: Results) -> float:
    """The largest difference of a loss from that of one process, relative."""
    compared = [record.equality for ranks, _ in results.values() for record in ranks if record.equality is not None]
    pairs = [pair for each in compared for pair in zip(each.losses, each.reference, strict=False)]
    return max(abs(loss - reference) / abs(reference) for loss, reference in pairs)


def main() -> int:
    """One row a worker count and model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workers", type=int, nargs="+", help="worker counts")
    parser.add_argument("--model", action="append", choices=list(MODELS), help="repeatable (default: all)")
    options = parser.parse_args()
    print(f"{'workers':>7} {'model':14} {'layouts':>7} {'valid':>5} {'gradient':>9} {'loss':>9}")
    wrong = 0
    for workers in options.workers:
        for model in options.model or MODELS:
            cases = {name: ("none", each) for name, each in every_layout(workers, model)}
            with tempfile.TemporaryDirectory() as folder:
                results = run(Path(folder), workers, cases)
            invalid = {name: verdict for name, (_, verdict) in results.items() if verdict.reason is not None}
            made = [record.equality for ranks, _ in results.values() for record in ranks if record.equality is not None]
            gradient = max(each.gradient_error for each in made)
            valid = len(results) - len(invalid)
            row = f"{workers:7} {model:14} {len(results):7} {valid:5} {gradient:9.1e} {loss_error(results):9.1e}"
            print(row, flush=True)
            for name, verdict in invalid.items():
                print(f"        {name}: {verdict.reason}: {verdict.message}")
            wrong += len(invalid)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
