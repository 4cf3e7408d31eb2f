"""The runs that ``engine_fidelity.py`` compares: each starts its own processes and returns samples a second."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.fidelity.fidelity import WARMUP, Configuration, trial_of

HERE = Path(__file__).resolve().parent
LIMIT_S = 120


@dataclass(frozen=True)
class Run:
    """Samples a second, and what else the run says about itself."""

    rate: float
    seconds: float
    details: dict[str, Any] = field(default_factory=dict)


def plain_command(configuration: Configuration, gate: Path | None = None) -> list[str]:
    """The hand-written loop under torchrun; with ``gate`` its ranks wait for that file once they have loaded torch."""
    steps = configuration.steps * configuration.windows
    options = ["--model", configuration.model, "--batch", str(configuration.batch), "--steps", str(steps)]
    script = [str(HERE / "plain_ddp.py")] if gate is None else ["-m", "benchmarks.fidelity.engine_arms", str(gate)]
    return [*torchrun(configuration.workers), *script, *options, "--warmup", str(WARMUP)]


def plain(configuration: Configuration, folder: Path, env: dict[str, str] | None = None) -> Run:
    """The hand-written loop in this process's environment and ``env``."""
    return rate_in(*execute(plain_command(configuration), env or {}, folder))


def rate_in(said: str, seconds: float) -> Run:
    found = re.search(r"([\d,.]+) samples/s", said)
    if found is None:
        raise RuntimeError(f"plain_ddp.py printed no rate: {said[-1500:]}")
    return Run(float(found[1].replace(",", "")), seconds)


class Waiting:
    """A plain run that loads while the engine's own processes do, and computes when it is let go: it saves time only.

    Its ranks sleep before they touch a device.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._gate, self._log = Path(self._folder.name, "gate"), Path(self._folder.name, "log")
        with self._log.open("w") as file:
            self._process = subprocess.Popen(plain_command(configuration, self._gate), stdout=file, stderr=file)

    def give_up(self) -> None:
        self._process.terminate()
        self._process.wait()

    def let_go(self) -> Run:
        began = time.monotonic()
        self._gate.touch()
        try:
            self._process.wait(LIMIT_S)
        finally:
            self.give_up()
        run = rate_in(self._log.read_text(errors="replace"), time.monotonic() - began)
        self._folder.cleanup()
        return run


def wait_at_gate() -> None:
    """A rank of a ``Waiting`` run."""
    from benchmarks.fidelity import plain_ddp

    gate = Path(sys.argv.pop(1))
    began = time.monotonic()
    while not gate.exists():
        time.sleep(0.02)
        if time.monotonic() - began > 10 * LIMIT_S or os.getppid() == 1:
            sys.exit("nobody let this run go")
    plain_ddp.main()


def plain_env(configuration: Configuration, folder: Path) -> Run:
    """The plain loop with the variables that the engine sets."""
    from scalecurve_local.devices.cores import survey_cores
    from scalecurve_local.devices.gpus import survey_gpus
    from scalecurve_local.devices.shares import Machine, allot
    from scalecurve_local.execution.environment import trial_environment

    trial = trial_of(configuration, 0, False, device())
    share = allot([trial], Machine(survey_cores(), survey_gpus(os.environ)), False).shares[trial.name]
    env = trial_environment(os.environ, folder / "trial.json", folder, share, folder, 29555, None, device() == "cpu")
    return plain(configuration, folder, {k: v for k, v in env.items() if not k.startswith(("SCALECURVE_", "MASTER_"))})


def worker(configuration: Configuration, folder: Path) -> Run:
    """Our worker under torchrun in this process's environment: no engine."""
    from scalecurve_api.contract import OUT_ENV, TRIAL_ENV, rank_file

    trial = json.dumps(trial_of(configuration, 0, False, device()).wire())
    command = [*torchrun(configuration.workers), "-m", "scalecurve_worker"]
    _, seconds = execute(command, {TRIAL_ENV: trial, OUT_ENV: str(folder)}, folder)
    ranks = [json.loads((folder / rank_file(rank)).read_text()) for rank in range(configuration.workers)]
    windows = list(zip(*(rank["windows"] for rank in ranks), strict=True))
    walls = [max(rank["wallNs"] for rank in window) for window in windows]
    samples = sum(rank["samples"] for window in windows for rank in window)
    return Run(samples / sum(walls) * 1e9, seconds, {"wallsMs": [wall / 1e6 for wall in walls]})


def engine(
    configuration: Configuration,
    folder: Path,
    exposed: bool = False,
    windows: int | None = None,
    env: dict[str, str] | None = None,
) -> Run:
    """``scalecurve run``, up to the record of the trial of so many workers."""
    experiment, bundle = folder / "experiment.yaml", folder / "bundle"
    experiment.write_text(json.dumps(experiment_of(configuration, exposed, windows or configuration.windows)))
    command = [sys.executable, "-m", "scalecurve", "run", str(experiment), "--bundle", str(bundle), "-q"]
    # There may be no devices for the count that never runs.
    said, seconds = execute([*command, "--oversubscribe"], env or {}, folder, until=lambda: bool(records_in(bundle)))
    found = records_in(bundle)
    if not found:
        raise RuntimeError(f"no record: {said[-1500:]}")
    record = json.loads(found[0].read_text())
    if record["phase"] != "Succeeded" or record["trial"]["point"]["workers"] != configuration.workers:
        raise RuntimeError(f"{record['trial']['name']} is {record['phase']}: {record['message']} {said[-500:]}")
    summary = record["summary"]
    walls = [window["wallNs"] / 1e6 for window in record["windows"] if window["kind"] == "train"]
    others = [window["wallNs"] / 1e6 for window in record["windows"] if window["kind"] != "train"]
    details = {
        "wallsMs": walls,
        "otherWallsMs": others,
        "stepMedianMs": summary["step"]["median"] * 1e3,
        "stepsUs": slowest_steps(found[0].with_name("steps.parquet"), record["windows"]),
        "warmup": record["warmup"]["steps"],
        "deviceSamples": record.get("deviceSamples"),
        "environment": record["environment"],
    }
    return Run(summary["throughput"], seconds, details)


def slowest_steps(path: Path, windows: Sequence[dict[str, Any]]) -> list[list[int]]:
    """Of each train window, every step's time on its slowest rank, in microseconds."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(path, columns=["window", "step", "duration_ns"]).to_pylist()
    found = []
    for index in (window["index"] for window in windows if window["kind"] == "train"):
        slowest: dict[int, int] = {}
        for row in table:
            if row["window"] == index:
                slowest[row["step"]] = max(slowest.get(row["step"], 0), row["duration_ns"])
        found.append([round(slowest[step] / 1e3) for step in sorted(slowest)])
    return found


def records_in(bundle: Path) -> list[Path]:
    return list((bundle / "trials").glob("*/trial.json"))


def no_nvml(configuration: Configuration, folder: Path) -> Run:
    """The engine where NVML's bindings cannot be imported."""
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "pynvml.py").write_text("raise ImportError('hidden by engine_fidelity.py')\n")
    return engine(configuration, folder, env={"PYTHONPATH": f"{hidden}:{os.environ.get('PYTHONPATH', '')}"})


def one_window(configuration: Configuration, folder: Path) -> Run:
    """The engine with as many steps in a single window, as the plain loop has them."""
    return engine(configuration, folder, windows=1)


def exposed(configuration: Configuration, folder: Path) -> Run:
    """The engine with alternated windows."""
    return engine(configuration, folder, exposed=True)


ARMS: dict[str, Callable[[Configuration, Path], Run]] = {
    "plain": plain,
    "engine": engine,
    "exposed": exposed,
    "worker": worker,
    "plain-env": plain_env,
    "no-nvml": no_nvml,
    "one-window": one_window,
}


def experiment_of(configuration: Configuration, exposed: bool, windows: int) -> dict[str, Any]:
    """An experiment whose first trial is the one to compare."""
    from scalecurve_api.planning.plan import make_plan
    from scalecurve_api.spec.experiment import ScalingExperiment

    for seed in range(100):
        experiment = spelled(configuration, exposed, windows, seed)
        if make_plan(ScalingExperiment.model_validate(experiment)).trials[0].point.workers == configuration.workers:
            return experiment
    raise RuntimeError("no seed puts the trial first")


def spelled(configuration: Configuration, exposed: bool, windows: int, seed: int) -> dict[str, Any]:
    return {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": "fidelity"},
        "spec": {
            "scaling": {
                "modes": ["weak"],
                "workers": [configuration.workers, 2 * configuration.workers],
                "batch": {"perWorker": configuration.batch},
            },
            "workload": {
                "program": "torch",
                "strategy": "ddp",
                "model": configuration.model,
                "precision": "bf16",
                "device": "gpu" if device() == "cuda" else "cpu",
                "options": {"channelsLast": True, "compile": configuration.compiled},
            },
            "measure": {
                "warmupSteps": WARMUP,
                "maxWarmupSteps": 3 * WARMUP,
                "windows": windows,
                "stepsPerWindow": configuration.steps * configuration.windows // windows,
                "repetitions": 1,
                "seed": seed,
                "exposedCommunication": exposed,
                # Other runs on a shared CPU are no reason to try the script in vain.
                "maxForeignLoad": 1.0 if device() == "cpu" else 0.25,
            },
        },
    }


def device() -> str:
    return "cuda" if os.environ.get("FIDELITY_DEVICE") != "cpu" else "cpu"


def torchrun(workers: int) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]


def execute(
    command: Sequence[str], env: dict[str, str], folder: Path, until: Callable[[], bool] | None = None
) -> tuple[str, float]:
    """What a command printed and the seconds it took; ``until`` ends it by an interrupt, which is no failure then."""
    began = time.monotonic()
    log = folder / "log"
    asked = False
    with log.open("w") as file:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=file, stderr=file)
        while process.poll() is None:
            if time.monotonic() - began > LIMIT_S:
                process.terminate()
                raise RuntimeError(f"{' '.join(command[:4])} took over {LIMIT_S} s: {log.read_text()[-1500:]}")
            if until is not None and not asked and until():
                process.send_signal(signal.SIGINT)
                asked = True
            time.sleep(0.1)
    said = log.read_text(errors="replace")
    if process.returncode and not asked:
        raise RuntimeError(f"{' '.join(command[:4])} ended with {process.returncode}: {said[-1500:]}")
    return said, time.monotonic() - began


if __name__ == "__main__":
    wait_at_gate()
