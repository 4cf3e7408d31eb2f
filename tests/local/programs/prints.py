"""A program that knows nothing of ScaleCurve: it works, and prints lines as a well-known trainer does.

    prints.py FORMAT --batch N [--global N] [--steps N] [--every N] [--step-ms MS] [--do WHAT]

It prints on the last rank for megatron, as Megatron-LM does, and on rank 0 for others. WHAT: fail:STEP (exits with 3),
quiet (prints no such line), slow:FACTOR (claims step times larger by this), batch:N (claims another global batch),
child (works in a process that it starts), nan (a loss of nan),
once (sees to it that nobody else has started it), chatter (prints as much as it can on every other rank).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("format")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--global", dest="total", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--step-ms", type=float, default=4)
    parser.add_argument("--do", default="")
    arguments = parser.parse_args()
    what, _, value = arguments.do.partition(":")
    if what == "child":
        sys.exit(subprocess.call([sys.executable, __file__, *sys.argv[1:-2]]))
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    assert what != "once" or world == 1, "started once for each worker"
    talks = rank == (world - 1 if arguments.format == "megatron" else 0) and what != "quiet"
    print("starting with", arguments, flush=True)
    while what == "chatter" and not talks:
        print("nothing of interest, as often as possible\n" * 100, flush=True)
    total = int(value) if what == "batch" else arguments.total or arguments.batch * world
    begun, samples = time.perf_counter(), 0
    if talks and arguments.format == "mllog":
        mllog("block_start", None, samples_count=0)
    for step in range(1, arguments.steps + 1):
        time.sleep(arguments.step_ms / 1e3)
        samples += total
        if what == "fail" and step == int(value):
            sys.exit(3)
        if talks and step % arguments.every == 0:
            seconds = (time.perf_counter() - begun) / arguments.every * (float(value) if what == "slow" else 1)
            loss = "nan" if what == "nan" else f"{1 / step:.6f}"
            say(arguments, step, seconds, loss, total, samples)
            begun = time.perf_counter()


def say(arguments: argparse.Namespace, step: int, seconds: float, loss: str, total: int, samples: int) -> None:
    end, steps = "\n", arguments.steps
    match arguments.format:
        case "torchtitan":
            head = "[rank0]:[titan] 2025-10-30 14:32:58,990 - root - INFO - "
            loads = (
                f"grad_norm:  4.6416  memory:  2.49GiB(3.14%)  tps: {64 * arguments.batch / seconds:,.0f}  mfu: 9.72%"
            )
            line = f"{head}\x1b[31mstep: {step:2}  \x1b[32mloss: {loss}  \x1b[38;2;54;234;195m{loads}\x1b[39m"
        case "megatron":
            head = f" [2024-04-06 02:59:36] iteration {step:8}/{steps:8} | consumed samples: {samples:12} | "
            rate = f"elapsed time per iteration (ms): {seconds * 1e3:.1f} | throughput per GPU (TFLOP/s/GPU): 239.8 | "
            line = f"{head}{rate}global batch size: {total:5} | lm loss: {loss} | loss scale: 1.0 | grad norm: 1.426 |"
        case "huggingface":
            line, end = f"\r {step * 100 // steps:3}%|#   | {step}/{steps} [00:05<00:46, {1 / seconds:.2f}it/s]", ""
            print({"loss": loss, "grad_norm": "0.9", "learning_rate": "5e-05", "epoch": "0.1"}, flush=True)
        case "mllog":
            return mllog("train_loss", float(loss), samples_count=samples)
        case _:
            line = f"iter {step}: loss {loss}, time {seconds * 1e3:.2f}ms, mfu -100.00%"
    print(line, end=end, flush=True)


def mllog(key: str, value: float | None, **metadata: int) -> None:
    event = {"namespace": "", "time_ms": time.time_ns() // 1_000_000, "event_type": "POINT_IN_TIME", "key": key}
    print(":::MLLOG", json.dumps({**event, "value": value, "metadata": metadata}), flush=True)


if __name__ == "__main__":
    main()
