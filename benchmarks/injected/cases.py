"""Causes of lost efficiency that are put into a training on CPUs or GPUs, and what `explain` makes of each."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.explain import explain

ROOT = Path(__file__).resolve().parents[2]
PARAMETERS = 512 * 1024 + 1024 + 1024 * 512 + 512
LINK_BITS = 400_000_000


@dataclass(frozen=True)
class Case:
    """A cause, the kind of term it should be, and what it costs a step at 2 workers (None: as the program timed it)."""

    name: str
    kind: str
    expected_s: float | None
    mode: str = "weak"
    environment: Mapping[str, str] = field(default_factory=dict)
    link_bits: int | None = None

    def with_ms(self, cost_ms: int) -> "Case":
        """The same cause at another size."""
        return replace(self, expected_s=cost_ms / 1e3, environment={"CAUSE_MS": str(cost_ms)})


CASES = {
    case.name: case
    for case in (
        Case("loader", "input", 0.1, environment={"CAUSE_MS": "100"}),
        Case("rank", "imbalance", 0.1, environment={"CAUSE_MS": "100"}),
        Case("host", "host", 0.1, environment={"CAUSE_MS": "100"}),
        # A fixed cost of each pass: at half the batch per worker, ideal is half of it.
        Case("batch", "compute", 0.05, mode="strong", environment={"CAUSE_MS": "100"}),
        Case("bytes", "communication", None, environment={"CAUSE_ELEMENTS": str(1 << 24)}),
        # A ring of two sends as many bytes as there are gradients from each rank, and both pass the same interface.
        Case("link", "communication", 2 * 4 * PARAMETERS * 8 / LINK_BITS, link_bits=LINK_BITS),
    )
}


@dataclass(frozen=True)
class Finding:
    """The largest term of a run, or why there is none, and the term that was injected, in seconds of a step."""

    largest: str
    seconds: float
    expected_s: float

    @property
    def ratio(self) -> float:
        return self.seconds / self.expected_s


def run(case: Case, folder: Path, windows: int = 2, steps: int = 10, gpu: bool = False) -> Finding:
    """Measure 1 and 2 workers with the cause, in so many windows of so many steps, and explain ``folder/bundle``.

    Raises:
        RuntimeError: the run failed or left no record; its output is in the message.
    """
    folder.mkdir(parents=True)
    file, bundle = folder / "experiment.yaml", folder / "bundle"
    file.write_text(yaml.safe_dump(_experiment(case, windows, steps, gpu)))
    command = [
        sys.executable,
        "-c",
        "from scalecurve.cli import cli; cli()",
        "run",
        str(file),
        "--bundle",
        str(bundle),
        "-q",
    ]
    if case.link_bits:
        command = _behind_a_link(command, case.link_bits)
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise RuntimeError(f"{case.name}: {done.stdout}{done.stderr}")
    opened = open_bundle(bundle)
    bars = explain([opened]).bars
    if not bars:
        return Finding("nothing lost", 0.0, case.expected_s or _told(bundle))
    ((_, bar),) = bars
    (last,) = (trial.record for trial in opened.trials if trial.spec.point.workers == 2)
    if last is None:
        raise RuntimeError(f"{case.name}: no record: {done.stdout}{done.stderr}")
    if bar.largest is None:
        return Finding(f"not split: {bar.refused}", 0.0, case.expected_s or _told(bundle))
    trained = [window for window in last.windows if window.kind.value == "train"]
    step_s = sum(window.wall_ns for window in trained) / sum(window.steps for window in trained) / 1e9
    share = next((term.share for term in bar.terms if term.kind == case.kind), 0.0)
    return Finding(bar.largest.kind, share * step_s, case.expected_s or _told(bundle))


def can_throttle() -> bool:
    """Whether this machine makes network namespaces and shapes their loopback interface."""
    if os.geteuid() or not (shutil.which("unshare") and shutil.which("tc") and shutil.which("ip")):
        return False
    return not subprocess.run(_behind_a_link(["true"], LINK_BITS), capture_output=True, check=False).returncode


def _behind_a_link(command: list[str], bits: int) -> list[str]:
    shape = f"ip link set lo up && tc qdisc add dev lo root tbf rate {bits} burst 256k latency 1s"
    return ["unshare", "--net", "sh", "-c", f'{shape} && exec "$@"', "sh", *command]


def _told(bundle: Path) -> float:
    """What the program's own clock took for the cause."""
    lines = [line for log in bundle.glob("trials/*-2-*/logs/*") for line in log.read_text().splitlines()]
    return float(next(line.split("injected ")[1].split()[0] for line in lines if "injected " in line))


def _experiment(case: Case, windows: int, steps: int, gpu: bool) -> dict[str, Any]:
    batch = {"global": 512, "perWorker": 256} if gpu else {"global": 64, "perWorker": 32}
    device = "gpu" if gpu else "cpu"
    return {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": f"injected-{case.name}"},
        "spec": {
            "scaling": {"modes": [case.mode], "workers": [1, 2], "batch": batch},
            "workload": {
                "program": "custom",
                "command": [sys.executable, str(ROOT / "benchmarks/injected/train.py")],
                "sameData": True,
                "env": {"CAUSE": case.name, "CAUSE_DEVICE": device, **case.environment},
                "device": device,
            },
            "measure": {
                "warmupSteps": min(4, steps),
                "maxWarmupSteps": 12 if steps > 2 else steps,
                "windows": windows,
                "stepsPerWindow": steps,
                "repetitions": 1,
                "maxForeignLoad": 1,
            },
        },
    }
