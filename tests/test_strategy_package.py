"""A strategy from outside the tree, one file on each side: local SGD, whose workers average every few steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

API = """
from pydantic import Field

from scalecurve_api.model import Whole
from scalecurve_api.programs.torch import TorchStrategy
from scalecurve_api.programs.torch_options import TorchOptions


class LocalSgdOptions(TorchOptions):
    sync_every: Whole = Field(default=4, ge=1, description="Steps from one average of the parameters to the next.")


class LocalSgd(TorchStrategy):
    def exchange_every(self, workload):
        return workload.options.sync_every


LOCAL_SGD = LocalSgd(name="local-sgd", wrapper="PostLocalSGDOptimizer", options=LocalSgdOptions, full_replica=True)
"""
WORKER = """
import torch.distributed as dist
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.utils import average_parameters
from torch.distributed.optim import PostLocalSGDOptimizer

from scalecurve_worker.torch import traffic
from scalecurve_worker.torch.optimizers import make_optimizer
from scalecurve_worker.torch.strategies import RankStrategy, WrappedModel, count_elements


def wrap(model, device, workload):
    workers, period = dist.get_world_size(), workload.options.sync_every
    plain = make_optimizer(model.parameters(), workload.optimizer, workers)
    optimizer = PostLocalSGDOptimizer(plain, PeriodicModelAverager(period, warmup_steps=0))
    optimizer.defaults = plain.defaults
    return WrappedModel(
        model,
        type(optimizer).__name__,
        optimizer,
        unexposed="only every few steps communicate",
        traffic=lambda: traffic.all_reduced(count_elements(model) // period, workers),
        settle=lambda: average_parameters(model.parameters(), dist.group.WORLD),
        options={"syncEvery": period},
    )


LOCAL_SGD = RankStrategy(wrap)
"""
EXPERIMENT = """
apiVersion: scalecurve.dev/v1alpha1
kind: ScalingExperiment
metadata: {name: averaging}
spec:
  scaling: {modes: [weak], workers: [2], batch: {perWorker: 4}}
  workload:
    {model: mlp, device: cpu, strategy: local-sgd, options: {syncEvery: 2}}
  measure: {warmupSteps: 4, maxWarmupSteps: 4, windows: 2, stepsPerWindow: 4, repetitions: 1, maxForeignLoad: 1}
"""
SETTLE = "        settle=lambda: average_parameters(model.parameters(), dist.group.WORLD),\n"


def install(site: Path, worker: str = WORKER) -> Path:
    """Put the package where Python finds it."""
    metadata = site / "local_sgd-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "local_sgd_fields.py").write_text(API)
    (site / "local_sgd_rank.py").write_text(worker)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: local-sgd\nVersion: 1.0\n")
    entries = {
        "scalecurve.torch_strategies": "local_sgd_fields:LOCAL_SGD",
        "scalecurve_worker.torch_strategies": "local_sgd_rank:LOCAL_SGD",
    }
    lines = [f"[{group}]\nlocal-sgd = {entry}\n" for group, entry in entries.items()]
    (metadata / "entry_points.txt").write_text("".join(lines))
    return site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("site"))


def python(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "200"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)


def validated(site: Path, folder: Path, text: str) -> str:
    """What ``validate`` prints for an experiment."""
    (folder / "e.yaml").write_text(text)
    done = python(site, folder, "-m", "scalecurve", "validate", "e.yaml")
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("syncEvery", "syncEvry", "options.syncEvry: unknown field 'syncEvry'; did you mean 'syncEvery'?"),
        ("syncEvery: 2", "syncEvery: two", 'options.syncEvery: got "two"; expected a whole number'),
        ("syncEvery: 2", "syncEvery: 3", "spec.measure.stepsPerWindow: got 4; expected a multiple of 3"),
        ("local-sgd", "local-sdg", "strategy: got \"local-sdg\"; expected 'ddp'"),
        ("local-sgd", "ddp", "options.syncEvery: applies to strategy local-sgd only; remove it"),
        ("syncEvery: 2", "syncEvery: 2, keepThreads: true", "options.keepThreads: applies to strategy dp only"),
        ("local-sgd, ", "local-sgd, optimizer: {name: lars}, ", ""),
        ("  measure:", "  matrix: {options.syncEvery: [1, 4]}\n  measure:", ""),
        ("  measure:", "  matrix: {options.syncEvry: [1, 4]}\n  measure:", "did you mean 'options.syncEvery'?"),
    ],
)
def test_its_name_and_options_are_checked(site: Path, tmp_path: Path, old: str, new: str, message: str) -> None:
    text = validated(site, tmp_path, EXPERIMENT.replace(old, new))
    assert message in text
    assert bool(message) != (": ok" in text), text


def test_without_the_package_it_is_unknown(tmp_path: Path) -> None:
    text = validated(tmp_path, tmp_path, EXPERIMENT)
    assert 'spec.workload.strategy: got "local-sgd"; expected' in text
    assert "options.syncEvery: unknown field 'syncEvery'" in text


def test_a_package_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    broken = install(tmp_path / "site")
    (broken / "local_sgd_fields.py").write_text("import no_such_module\n")
    text = validated(broken, tmp_path, EXPERIMENT)
    assert "scalecurve.torch_strategies:local-sgd = local_sgd_fields:LOCAL_SGD (local-sgd 1.0) cannot be loaded" in text
    assert "no_such_module" in text
    spared = EXPERIMENT.replace("local-sgd", "ddp").replace(", options: {syncEvery: 2}", "")
    assert ": ok" in validated(broken, tmp_path, spared)


def test_the_crds_take_it(site: Path, tmp_path: Path) -> None:
    assert not python(site, tmp_path, "-m", "scalecurve_api.crds.generate", str(tmp_path)).returncode
    text = (tmp_path / "scalecurve.dev_scalingexperiments.yaml").read_text()
    assert "- local-sgd" in text
    assert "syncEvery:" in text


def trained(site: Path, folder: Path) -> dict[str, Any]:
    """The record of its one trial, by two real processes."""
    pytest.importorskip("torch", reason="torch is not installed")
    (folder / "e.yaml").write_text(EXPERIMENT)
    done = python(site, folder, "-m", "scalecurve", "run", "e.yaml", "--bundle", "bundle")
    (path,) = folder.glob("bundle/**/trial.json")
    record: dict[str, Any] = json.loads(path.read_text())
    assert len(record["topology"]) == 2, done.stdout + done.stderr
    return record


def test_it_trains_two_processes(site: Path, tmp_path: Path) -> None:
    record = trained(site, tmp_path)
    assert (record["phase"], record["strategy"]) == ("Succeeded", "PostLocalSGDOptimizer"), record["message"]
    assert record["options"]["syncEvery"] == 2
    assert len(set(record["parameterChecksums"])) == 1
    assert record["traffic"]["wireBytes"] > 0
    report = python(site, tmp_path, "-m", "scalecurve", "report", "bundle", "--format", "md")
    assert report.returncode == 0, report.stderr


def test_workers_that_end_apart_are_found(tmp_path: Path) -> None:
    """One that never averages, nor settles."""
    apart = WORKER.replace("PeriodicModelAverager(period,", "PeriodicModelAverager(1 << 30,").replace(SETTLE, "")
    assert apart.count("average_parameters") == 1
    record = trained(install(tmp_path / "site", apart), tmp_path)
    assert (record["phase"], record["reason"]) == ("Invalid", "ReplicasDiverged")
