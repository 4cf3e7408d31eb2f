"""Does a trainer run at its own speed while it is measured? Plain, zero-edit and SDK runs in turns.

    python -m benchmarks.trainers --nanogpt FOLDER --out trainers.json     # FOLDER has nanoGPT's train.py and model.py
    python -m benchmarks.trainers --only transformers --workers 2

``plain`` starts the script without ScaleCurve; its rate comes from when its own log lines arrive, over as many steps as
the windows have. ``zero-edit`` runs the same command under ``scalecurve run`` (``instrument: auto``), ``sdk`` the same
script with the SDK's five lines, or the integration's one. A ratio is a record's rate over the plain rate of its round.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BAR = 0.995
ARMS = ("plain", "zero-edit", "sdk")
LIMIT_S = 200
WINDOWS, WARMUP = 3, 20


@dataclass(frozen=True)
class Trainer:
    """A script, and how its log counts steps: ``step`` finds the number of the step that a line ends."""

    name: str
    folder: Path
    plain: list[str]
    sdk: list[str]
    step: re.Pattern[str]
    batch: int
    """Sequences in a step on one worker."""
    steps: int
    """Per window."""
    tokens: int
    """In a sequence."""
    steps_per_match: int = 1


SDK_LINES = (
    ("import torch\n", "import torch\nimport scalecurve_worker as scalecurve\n"),
    ("X, Y = get_batch('train') # f", "bench = scalecurve.attach(model, unit='tokens')\nX, Y = get_batch('train') # f"),
    ("while True:\n", "while bench.step():\n"),
    ("            loss = loss / gradient", "            bench.tokens(X.numel())\n            loss = loss / gradient"),
    ("if ddp:\n    destroy_process_group()", "bench.finish()\nif ddp:\n    destroy_process_group()"),
)  # fmt: skip


def nanogpt(source: Path, folder: Path, workers: int) -> Trainer:
    """nanoGPT's own ``train.py`` on random tokens, its GPT-2 compiled in bf16. It joins NCCL, so it needs a GPU."""
    import numpy

    for name in ("train.py", "model.py", "configurator.py"):
        shutil.copy(source / name, folder / name)
    (folder / "data" / "openwebtext").mkdir(parents=True)
    tokens = numpy.random.default_rng(0).integers(0, 50257, 4_000_000, dtype=numpy.uint16)
    for split in ("train", "val"):
        tokens.tofile(folder / "data" / "openwebtext" / f"{split}.bin")
    text = (folder / "train.py").read_text()
    for before, after in SDK_LINES:
        assert text.count(before) >= 1, before
        text = text.replace(before, after, 1) if "ddp" not in before else after.join(text.rsplit(before, 1))
    (folder / "train_sdk.py").write_text(text)
    micro, parts = 32, 4
    # It divides its accumulation by the number of ranks.
    options = [f"--batch_size={micro}", f"--gradient_accumulation_steps={parts * workers}", "--eval_iters=1"]
    options += ["--eval_interval=1000000", "--log_interval=5", "--max_iters=1000000"]
    return Trainer(
        "nanogpt",
        folder,
        ["train.py", *options],
        ["train_sdk.py", *options],
        re.compile(r"^iter (\d+): loss"),
        micro * parts,
        25,
        tokens=1024,
    )


def transformers(folder: Path, small: bool) -> Trainer:
    """GPT-2 under Transformers' ``Trainer``."""
    batch = 4 if small else 32
    command = [str(HERE / "gpt2_trainer.py"), f"--batch={batch}"]
    if small:
        command += ["--layers=2", "--width=64", "--length=64", "--vocabulary=256"]
    steps = 4 if small else 40
    return Trainer(
        "transformers",
        folder,
        command,
        [*command, "--callback"],
        re.compile(r"'loss'"),
        batch,
        steps,
        tokens=64 if small else 1024,
        steps_per_match=5,
    )


def launcher(workers: int) -> list[str]:
    """The same for one worker: with RANK set, a script joins a group and wraps its model."""
    return [sys.executable, "-u", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]


def plain_rate(trainer: Trainer, workers: int) -> float:
    """Sequences a second, from the arrival of the script's own lines, after as long a warm-up as the record's."""
    command = [*launcher(workers), *trainer.plain]
    first = last = None
    log: list[str] = []
    with subprocess.Popen(
        command,
        cwd=trainer.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "4"},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        matches, began = 0, time.monotonic()
        try:
            for line in process.stdout:
                log.append(line)
                if found := trainer.step.search(line):
                    now = time.monotonic()
                    step = int(found[1]) if found.groups() else trainer.steps_per_match * (matches := matches + 1)
                    if first is None and step >= WARMUP:
                        first = (step, now)
                    elif first is not None and step - first[0] >= WINDOWS * trainer.steps:
                        last = (step, now)
                        break
                if time.monotonic() - began > LIMIT_S:
                    break
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    if first is None or last is None:
        raise RuntimeError(f"{trainer.name} logged too few steps: {''.join(log)[-1500:]}")
    return (last[0] - first[0]) * trainer.batch * workers / (last[1] - first[1])


def measured_rate(trainer: Trainer, command: list[str], instrument: str, workers: int, small: bool) -> dict[str, Any]:
    """``scalecurve run`` with one worker count; sequences a second of the record's windows, and what it explains."""
    with tempfile.TemporaryDirectory() as place:
        experiment, bundle = Path(place, "experiment.yaml"), Path(place, "bundle")
        experiment.write_text(json.dumps(spelled(trainer, command, instrument, workers, small)))
        done = subprocess.run(
            [sys.executable, "-m", "scalecurve", "run", str(experiment), "--bundle", str(bundle), "-q"],
            cwd=trainer.folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        records = list((bundle / "trials").glob("*/trial.json"))
        if not records:
            raise RuntimeError(f"no record: {(done.stdout + done.stderr)[-1500:]}")
        record = json.loads(records[0].read_text())
    if record["phase"] != "Succeeded":
        raise RuntimeError(f"{record['phase']}: {record.get('reason')}: {record.get('message')}")
    windows = [each for each in record["windows"] if each["kind"] == "train"]
    rate = sum(each["samples"] for each in windows) / sum(each["wallNs"] for each in windows) * 1e9
    rate /= trainer.tokens if record["summary"]["sampleUnit"] == "tokens" else 1
    return {"rate": rate, "summary": record["summary"], "environment": record["environment"]}


def spelled(trainer: Trainer, command: list[str], instrument: str, workers: int, small: bool) -> dict[str, Any]:
    return {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": trainer.name},
        "spec": {
            "scaling": {"modes": ["weak"], "workers": [workers], "batch": {"perWorker": trainer.batch}},
            "workload": {
                "program": "custom",
                "command": [sys.executable, *command],
                "launcher": "torchrun",
                "workingDir": str(trainer.folder),
                "instrument": instrument,
                "device": "cpu" if small else "gpu",
            },
            "measure": {
                "warmupSteps": WARMUP if not small else 3,
                "maxWarmupSteps": 2 * WARMUP if not small else 6,
                "windows": WINDOWS,
                "stepsPerWindow": trainer.steps,
                "repetitions": 1,
                "maxForeignLoad": 1.0 if small else 0.25,
            },
        },
    }


def compare(trainer: Trainer, arguments: argparse.Namespace, over: float) -> dict[str, Any]:
    rounds: list[dict[str, Any]] = []
    errors: list[str] = []
    took = 0.0
    for index in range(arguments.rounds):
        if time.monotonic() + took > over:
            break
        began, found = time.monotonic(), {}
        for arm in [*ARMS[index % 3 :], *ARMS[: index % 3]]:
            try:
                if arm == "plain":
                    found[arm] = {"rate": plain_rate(trainer, arguments.workers)}
                else:
                    command, instrument = (trainer.plain, "auto") if arm == "zero-edit" else (trainer.sdk, "sdk")
                    found[arm] = measured_rate(trainer, command, instrument, arguments.workers, arguments.small)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                errors.append(f"{arm}: {error}"[:2000])
                print(f"{trainer.name} #{index} {arm}: {error}", flush=True)
                continue
            print(f"{trainer.name} x{arguments.workers} #{index} {arm:<10}{found[arm]['rate']:>10.3f}/s", flush=True)
        # The first round also compiles, which later ones find in a cache.
        took = time.monotonic() - began if not took else min(took, time.monotonic() - began)
        rounds.append(found)
    ratios = {
        arm: [each[arm]["rate"] / each["plain"]["rate"] for each in rounds if arm in each and "plain" in each]
        for arm in ARMS[1:]
    }
    medians = {arm: statistics.median(values) for arm, values in ratios.items() if values}
    for arm, value in medians.items():
        print(f"{trainer.name} x{arguments.workers} {arm}: {value:.4f} of {' '.join(f'{v:.4f}' for v in ratios[arm])}")
    return {
        "name": trainer.name, "workers": arguments.workers, "batch": trainer.batch, "rounds": rounds,
        "ratios": ratios, "medians": medians, "errors": errors,
    }  # fmt: skip


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--nanogpt", type=Path, help="folder of nanoGPT's train.py, model.py and configurator.py")
    arguments.add_argument("--only", choices=("nanogpt", "transformers"))
    arguments.add_argument("--workers", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--small", action="store_true", help="a tiny Trainer on CPUs, to try the script")
    arguments.add_argument("--seconds", type=float, default=3600.0, help="start no round that would not end by then")
    arguments.add_argument("--out", type=Path, help="file for the JSON")
    chosen = arguments.parse_args()
    over = time.monotonic() + chosen.seconds
    rows = []
    with tempfile.TemporaryDirectory() as place:
        trainers = []
        if chosen.nanogpt and chosen.only != "transformers" and not chosen.small:
            folder = Path(place, "nanogpt")
            folder.mkdir()
            trainers.append(nanogpt(chosen.nanogpt.resolve(), folder, chosen.workers))
        if chosen.only != "nanogpt":
            trainers.append(transformers(Path(place), chosen.small))
        for trainer in trainers:
            rows.append(compare(trainer, chosen, over))
            if chosen.out:
                chosen.out.write_text(json.dumps({"bar": BAR, "rows": rows}, indent=1) + "\n")
    passed = all(len(row["medians"]) == 2 and min(row["medians"].values()) >= BAR for row in rows)
    return 0 if chosen.small or passed else 1


if __name__ == "__main__":
    sys.exit(main())
