"""Rules over several fields: what a well-formed experiment must also keep."""

from typing import Any

import pytest
import yaml

from scalecurve_api.validation.rules import check
from scalecurve_api.validation.validate import validate_text
from tests.api.example_experiments import REMOVED, changed, experiment, problems

MPI = {"program": "allreduce", "backend": "mpi"}
CUSTOM = {"workload": {"program": "custom", "command": ["python", "train.py"]}}


@pytest.mark.parametrize(
    ("changes", "field", "got", "code", "suggestion"),
    [
        # the scaling itself
        ({"scaling/workers": [1, 2, 1]}, "spec.scaling.workers[2]", 1, "Duplicate", None),
        ({"scaling/modes": ["weak", "weak"]}, "spec.scaling.modes[1]", "weak", "Duplicate", None),
        ({"scaling/baseline": 4}, "spec.scaling.baseline", 4, "Invalid", None),
        ({"scaling/batch": {"global": 16}}, "spec.scaling.batch.perWorker", "nothing", "Required", None),
        ({"scaling/batch/ladder": {"from": 32}}, "spec.scaling.batch.perWorker", 8, "Forbidden", None),
        ({"scaling/batch": {"ladder": {"from": 32}}, "matrix": {"batch.perWorker": [1]}},
         "spec.matrix.batch.perWorker", [1], "Forbidden", None),
        ({"scaling/batch": {"global": 16, "ladder": {"from": 32}}, "scaling/modes": ["strong"]},
         "spec.scaling.modes", ["strong"], "NotSupported", None),
        ({"scaling/batch": {"ladder": {"from": 32, "factor": 1024}}},
         "spec.scaling.batch.ladder.maxBatches", 8, "Invalid", None),
        ({"scaling/batch": {}, "scaling/modes": ["strong"]}, "spec.scaling.batch.global", "nothing", "Required", None),
        ({"scaling/workers": [1, 2, 3], "scaling/modes": ["strong"]}, "spec.scaling.batch.global", 16, "Invalid", None),
        ({"scaling/workers": [1, 32], "scaling/modes": ["strong"]}, "spec.scaling.batch.global", 16, "Invalid", None),
        ({"scaling/workers": [1, 2], "scaling/modes": ["strong"], "workload/options": {"gradientAccumulation": 16}},
         "spec.scaling.batch.global", 16, "Invalid", None),
        ({"scaling/modes": ["strong"], "scaling/workers": [1, 2, 4], "matrix": {"batch.global": [16, 18]}},
         "spec.matrix.batch.global", 18, "Invalid", None),
        ({"workload/options": {"gradientAccumulation": 3}}, "spec.scaling.batch.perWorker", 8, "Invalid", None),
        ({"matrix": {"options.gradientAccumulation": [1, 3]}}, "spec.scaling.batch.perWorker", 8, "Invalid", None),
        # the report
        ({"report": {"x": "precision"}}, "spec.report.x", "precision", "Invalid", None),
        ({"report": {"x": "depth"}, "matrix": {"precision": ["fp32", "bf16"]}},
         "spec.report.x", "depth", "Invalid", None),
        ({"report": {"x": "workers"}, "scaling/workers": [1]}, "spec.report.x", "workers", "Forbidden", None),
        # the placement
        ({"placement": {"workersPerNode": 2, "layouts": ["1x1", "1x2"]}},
         "spec.placement.layouts", ["1x1", "1x2"], "NotSupported", None),
        ({"placement/layouts": ["1x1", "1x2", "2x2"]}, "spec.placement.layouts[2]", "2x2", "Invalid", None),
        ({"placement/layouts": ["1x1"]}, "spec.scaling.workers[1]", 2, "Invalid", None),
        ({"scaling/workers": [1, 6], "placement/workersPerNode": 4}, "spec.scaling.workers[1]", 6, "Invalid", None),
        ({"scaling/workers": [100, 101], "placement/workersPerNode": 1, "placement/nesting": "require"},
         "spec.scaling.workers[1]", 101, "NotSupported", None),
        # variables
        ({"workload/env": {"NCCL_DEBUG": "INFO", "TF_CONFIG": "{}"}},
         "spec.workload.env.TF_CONFIG", "{}", "Forbidden", None),
        ({"workload/env": {"PET_NNODES": "2"}}, "spec.workload.env.PET_NNODES", "2", "Forbidden", None),
        ({"matrix": {"env.MASTER_PORT": ["1", "2"]}}, "spec.matrix.env.MASTER_PORT", ["1", "2"], "Forbidden", None),
        # measuring
        ({"measure": {"warmupSteps": 30, "maxWarmupSteps": 20}}, "spec.measure.maxWarmupSteps", 20, "Invalid", None),
        ({"measure": {"accuracy": {}}}, "spec.workload.data.source", "synthetic", "Invalid", None),
        # further axes
        ({"matrix": {"allreduce": ["ring"]}}, "spec.matrix.allreduce", "allreduce", "Unknown", "allReduce"),
        ({"matrix": {"workers": [1, 2]}}, "spec.matrix.workers", "workers", "Forbidden", None),
        ({"matrix": {"precision": ["fp32", "bf16", "fp32"]}}, "spec.matrix.precision[2]", "fp32", "Duplicate", None),
        ({"matrix": {"env.A": [1, "1"]}}, "spec.matrix.env.A[1]", "1", "Duplicate", None),
        ({"matrix": {"precision": ["fp32", "fp8"]}}, "spec.matrix.precision[1]", "fp8", "Invalid", None),
        ({"matrix": {"options.compile": ["yes"]}}, "spec.matrix.options.compile[0]", "yes", "Invalid", None),
        ({"matrix": {"batch.perWorker": [8, 0]}}, "spec.matrix.batch.perWorker[1]", 0, "Invalid", None),
        # exclusions
        ({"exclude": [{}]}, "spec.exclude[0]", {}, "Invalid", None),
        ({"exclude": [{"wokers": 1}]}, "spec.exclude[0].wokers", "wokers", "Unknown", "workers"),
        ({"exclude": [{"precision": "fp32"}]}, "spec.exclude[0].precision", "precision", "Unknown", None),
        ({"exclude": [{"workers": 4}]}, "spec.exclude[0].workers", 4, "Invalid", None),
        ({"exclude": [{"workers": True}]}, "spec.exclude[0].workers", True, "Invalid", None),
        ({"exclude": [{"layout": "2x1"}]}, "spec.exclude[0].layout", "2x1", "Invalid", None),
        ({"exclude": [{"mode": "weak"}]}, "spec.exclude", "rules that exclude every trial", "Invalid", None),
        # size
        ({"matrix": {f"env.A{i}": list(range(10)) for i in range(12)}},
         "spec", "more than 10000 trials", "Invalid", None),
        # the workload
        ({"workload/model": "resnet-50"}, "spec.workload.model", "resnet-50", "Invalid", "resnet50"),
        ({"matrix": {"model": ["resnet50", "vgg_16"]}}, "spec.matrix.model", "vgg_16", "Invalid", "vgg16"),
        ({"workload/data": {"source": "cifar10"}}, "spec.workload.data.path", "nothing", "Required", None),
        ({"workload/options": {"compile": True, "staticGraph": True}},
         "spec.workload.options.staticGraph", True, "NotSupported", None),
        ({"workload/options": {"compile": True}, "matrix": {"options.staticGraph": [True, False]}},
         "spec.matrix.options.staticGraph", True, "NotSupported", None),
        ({"workload/launcher": "processes"}, "spec.workload.launcher", "processes", "NotSupported", None),
        # legality: strategy
        ({"workload/strategy": "mirrored"}, "spec.workload.strategy", "mirrored", "Invalid", None),
        ({"workload": {"program": "horovod", "strategy": "ddp"}}, "spec.workload.strategy", "ddp", "Forbidden", None),
        # legality: horovod
        ({"workload": {"program": "horovod", "backend": "gloo"}}, "spec.workload.backend", "gloo", "Invalid", None),
        ({"workload": {"program": "horovod", "launcher": "torchrun"}},
         "spec.workload.launcher", "torchrun", "Invalid", None),
        ({"workload": {"program": "horovod", "launcher": "processes"}},
         "spec.workload.launcher", "processes", "Invalid", None),
        ({"workload": {"program": "horovod"}, "runner": "PyTorchJob"},
         "spec.runner", "PyTorchJob", "NotSupported", None),
        ({"workload": {"program": "horovod", "precision": "fp16"}},
         "spec.workload.precision", "fp16", "Invalid", "bf16"),
        ({"workload": {"program": "horovod", "model": "resnet-50"}},
         "spec.workload.model", "resnet-50", "Invalid", "resnet50"),
        ({"workload": {"program": "horovod", "device": "cpu", "allReduce": "ring"}},
         "spec.workload.allReduce", "ring", "NotSupported", None),
        ({"workload": {"program": "horovod", "allReduce": "rabenseifner"}},
         "spec.workload.allReduce", "rabenseifner", "Invalid", None),
        ({"workload": {"program": "horovod", "options": {"commHook": "powersgd"}}},
         "spec.workload.options.commHook", "powersgd", "Invalid", None),
        ({"workload": {"program": "horovod", "options": {"batchNorm": "broadcast"}}},
         "spec.workload.options.batchNorm", "broadcast", "Invalid", None),
        ({"workload": {"program": "horovod", "options": {"channelsLast": True}}},
         "spec.workload.options.channelsLast", True, "Invalid", None),
        ({"workload": {"program": "horovod", "options": {"staticGraph": True}}},
         "spec.workload.options.staticGraph", True, "Forbidden", None),
        ({"workload": {"program": "horovod", "device": "cpu", "backend": "nccl"}},
         "spec.workload.backend", "nccl", "NotSupported", None),
        ({"workload/strategy": "single"}, "spec.workload.strategy", "single", "NotSupported", None),
        ({"workload": {"program": "tensorflow", "strategy": "one-device"}},
         "spec.workload.strategy", "one-device", "NotSupported", None),
        ({"workload/strategy": "dp", "placement/workersPerNode": 1},
         "spec.workload.strategy", "dp", "NotSupported", None),
        ({"workload": {"strategy": "dp", "device": "cpu"}}, "spec.workload.strategy", "dp", "NotSupported", None),
        ({"workload": {"program": "tensorflow", "strategy": "mirrored"}, "placement/workersPerNode": 1},
         "spec.workload.strategy", "mirrored", "NotSupported", None),
        ({"matrix": {"strategy": ["ddp", "single"]}}, "spec.matrix.strategy", "single", "NotSupported", None),
        # legality: device and library
        ({"workload/backend": "mpi"}, "spec.workload.backend", "mpi", "Invalid", None),
        ({"workload": {"backend": "nccl", "device": "cpu"}}, "spec.workload.backend", "nccl", "NotSupported", None),
        ({"workload": {"precision": "fp16", "device": "cpu"}}, "spec.workload.precision", "fp16", "NotSupported", None),
        ({"workload/device": "cpu", "matrix": {"precision": ["fp32", "tf32"]}},
         "spec.matrix.precision", "tf32", "NotSupported", None),
        ({"workload": {"allReduce": "tree", "device": "cpu"}}, "spec.workload.allReduce", "tree", "NotSupported", None),
        ({"workload": {"allReduce": "tree", "backend": "gloo"}},
         "spec.workload.allReduce", "tree", "NotSupported", None),
        ({"workload": {"program": "tensorflow", "strategy": "mirrored", "allReduce": "ring"}},
         "spec.workload.allReduce", "ring", "Forbidden", None),
        ({"matrix": {"allReduce": ["rings"]}}, "spec.matrix.allReduce[0]", "rings", "Invalid", None),
        ({"workload/allReduce": "rabenseifner"}, "spec.workload.allReduce", "rabenseifner", "NotSupported", None),
        ({"workload/allReduce": "parameter-server"},
         "spec.workload.allReduce", "parameter-server", "NotSupported", None),
        ({"workload": {"program": "allreduce", "allReduce": "hierarchical"}},
         "spec.workload.allReduce", "hierarchical", "NotSupported", None),
        ({"workload": {"program": "allreduce", "backend": "gloo"}, "matrix": {"allReduce": ["ring", "tree"]}},
         "spec.matrix.allReduce", "tree", "NotSupported", None),
        ({"workload": MPI | {"model": "resnet-50", "sizes": {"payload": "buckets"}}},
         "spec.workload.model", "resnet-50", "Invalid", "resnet50"),
        ({"workload": MPI | {"launcher": "torchrun"}}, "spec.workload.launcher", "torchrun", "NotSupported", None),
        ({"workload": MPI | {"device": "gpu"}}, "spec.workload.device", "gpu", "NotSupported", None),
        ({"workload": MPI | {"sizes": {"dtype": "bfloat16"}}},
         "spec.workload.sizes.dtype", "bfloat16", "NotSupported", None),
        ({"workload": MPI, "runner": "PyTorchJob"}, "spec.runner", "PyTorchJob", "NotSupported", None),
        # legality: TensorFlow's own switches
        ({"workload": {"crossDeviceOps": "nccl"}}, "spec.workload.crossDeviceOps", "nccl", "Forbidden", None),
        ({"scaling/workers": [1, 2, 3],
          "workload": {"program": "tensorflow", "strategy": "mirrored", "crossDeviceOps": "hierarchical-copy"}},
         "spec.workload.crossDeviceOps", "hierarchical-copy", "NotSupported", None),
        ({"workload": {"program": "tensorflow", "strategy": "mirrored", "crossDeviceOps": "nccl", "device": "cpu"}},
         "spec.workload.crossDeviceOps", "nccl", "NotSupported", None),
        ({"workload": {"communication": "ring"}}, "spec.workload.communication", "ring", "Forbidden", None),
        ({"workload": {"program": "tensorflow", "strategy": "multi-worker-mirrored", "communication": "nccl",
                       "device": "cpu"}}, "spec.workload.communication", "nccl", "NotSupported", None),
        # legality: torch's own switches
        ({"workload": {"strategy": "fsdp", "options": {"commHook": "fp16"}}},
         "spec.workload.options.commHook", "fp16", "NotSupported", None),
        ({"workload/options": {"commHook": "fp16", "commHookRank": 2}},
         "spec.workload.options.commHookRank", 2, "Forbidden", None),
        ({"workload/options": {"commHookDensity": 0.1}},
         "spec.workload.options.commHookDensity", 0.1, "Forbidden", None),
        ({"workload": {"strategy": "fsdp", "options": {"batchNorm": "broadcast"}}},
         "spec.workload.options.batchNorm", "broadcast", "NotSupported", None),
        ({"workload": {"options": {"batchNorm": "synchronized"}, "device": "cpu"}},
         "spec.workload.options.batchNorm", "synchronized", "NotSupported", None),
        ({"workload/options": {"keepThreads": True}}, "spec.workload.options.keepThreads", True, "Forbidden", None),
        ({"workload": {"program": "tensorflow", "strategy": "mirrored"}, "measure": {"trace": {}}},
         "spec.measure.trace", {"steps": 3, "keep": False}, "Forbidden", None),
        ({"workload/options": {"overlap": False}, "workload/strategy": "zero1"},
         "spec.workload.options.overlap", False, "Forbidden", None),
        ({"workload/options": {"overlap": False, "bucketCapMb": 4}},
         "spec.workload.options.bucketCapMb", 4.0, "Forbidden", None),
        ({"workload/options": {"fsdpGroupMb": 64}}, "spec.workload.options.fsdpGroupMb", 64.0, "Forbidden", None),
        ({"workload": {"program": "horovod", "options": {"fsdpGroupMb": 64}}},
         "spec.workload.options.fsdpGroupMb", 64, "Forbidden", None),
        ({"workload": {"strategy": "zero1", "options": {"staticGraph": True}}},
         "spec.workload.options.staticGraph", True, "NotSupported", None),
        ({"workload": {"strategy": "dp", "options": {"compile": True}}},
         "spec.workload.options.compile", True, "NotSupported", None),
        ({"workload": {"strategy": "fsdp", "optimizer": {"name": "lamb"}}},
         "spec.workload.optimizer.name", "lamb", "NotSupported", None),
        ({"workload/optimizer": {"name": "rmsprop", "fused": True}},
         "spec.workload.optimizer.fused", True, "NotSupported", None),
        # legality: shards, recomputation and language models
        ({"workload/options": {"shard": 2}}, "spec.workload.options.shard", 2, "Forbidden", None),
        ({"scaling/workers": [2, 3], "workload": {"strategy": "fsdp", "options": {"shard": 2}}},
         "spec.workload.options.shard", 2, "Invalid", None),
        ({"workload/options": {"activationCheckpointing": "full"}},
         "spec.workload.options.activationCheckpointing", "full", "NotSupported", None),
        ({"workload": {"program": "horovod", "options": {"activationCheckpointing": "full"}}},
         "spec.workload.options.activationCheckpointing", "full", "NotSupported", None),
        ({"workload/options": {"deterministic": True, "cudnnBenchmark": True}},
         "spec.workload.options.cudnnBenchmark", True, "NotSupported", None),
        ({"workload/data": {"sequenceLength": 8}}, "spec.workload.data.sequenceLength", 8, "Forbidden", None),
        ({"workload": {"model": "gpt2_tiny", "data": {"sequenceLength": 8, "shape": [8]}}},
         "spec.workload.data.sequenceLength", 8, "Forbidden", None),
        ({"workload/data": {"source": "tokens", "path": "/d"}},
         "spec.workload.data.source", "tokens", "NotSupported", None),
        ({"workload": {"model": "gpt2_tiny", "data": {"source": "tokens"}}},
         "spec.workload.data.path", "nothing", "Required", None),
        ({"workload": {"model": "gpt2_tiny", "data": {"source": "digits"}}},
         "spec.workload.data.source", "digits", "NotSupported", None),
        ({"workload/data": {"column": "ids"}}, "spec.workload.data.column", "ids", "Forbidden", None),
        ({"workload/data": {"loaderWorkers": 2}}, "spec.workload.data.loaderWorkers", 2, "Forbidden", None),
        ({"workload": {"program": "tensorflow", "strategy": "mirrored", "data": {"source": "tokens", "path": "/d"}}},
         "spec.workload.data.source", "tokens", "NotSupported", None),
        ({"workload": {"program": "tensorflow", "strategy": "mirrored", "optimizer": {"name": "adam", "fused": True}}},
         "spec.workload.optimizer.fused", True, "Forbidden", None),
        ({"workload/optimizer": {"milestones": [3]}}, "spec.workload.optimizer.milestones", [3], "Forbidden", None),
        ({"workload/optimizer": {"decay": "multi-step"}}, "spec.workload.optimizer.milestones", [], "Invalid", None),
        # legality: parameter servers
        ({"workload/parameterServer": {"servers": 2}},
         "spec.workload.parameterServer",
         {"servers": 2, "updates": "asynchronous", "backupWorkers": 0, "stalenessAware": False}, "Forbidden", None),
        ({"workload": {"strategy": "parameter-server", "backend": "gloo"}},
         "spec.workload.backend", "gloo", "NotSupported", None),
        ({"workload": {"strategy": "parameter-server", "parameterServer": {"backupWorkers": 1}}},
         "spec.workload.parameterServer.backupWorkers", 1, "NotSupported", None),
        ({"workload": {"strategy": "parameter-server",
                       "parameterServer": {"backupWorkers": 2, "updates": "synchronous"}}},
         "spec.workload.parameterServer.backupWorkers", 2, "Invalid", None),
        ({"workload": {"strategy": "parameter-server",
                       "parameterServer": {"backupWorkers": 1, "servers": 2, "updates": "synchronous"}}},
         "spec.workload.parameterServer.backupWorkers", 1, "NotSupported", None),
        ({"workload": {"strategy": "parameter-server",
                       "parameterServer": {"stalenessAware": True, "updates": "synchronous"}}},
         "spec.workload.parameterServer.stalenessAware", True, "NotSupported", None),
        # legality: training to accuracy
        ({"measure/accuracy": {"stopAtTarget": True}, "workload": {"model": "mlp", "data": {"source": "digits"}}},
         "spec.measure.accuracy.target", "nothing", "Required", None),
        ({"measure/accuracy": {}, "workload": {"model": "mlp", "data": {"source": "digits"}},
          "matrix": {"data.source": ["digits", "synthetic"]}},
         "spec.matrix.data.source", "synthetic", "Invalid", None),
        # legality: commands and sizes
        ({"workload": {"program": "custom"}}, "spec.workload.command", "nothing", "Required", None),
        ({"workload/command": ["python"]}, "spec.workload.command", ['python'], "Forbidden", None),
        ({"workload": {"program": "allreduce", "sizes": {"minBytes": 1024, "maxBytes": 8}}},
         "spec.workload.sizes.maxBytes", 8, "Invalid", None),
    ],
)  # fmt: skip
def test_a_broken_rule(changes: dict[str, Any], field: str, got: object, code: str, suggestion: str | None) -> None:
    (problem,) = problems(changes)
    assert (problem.field, problem.got, problem.code, problem.suggestion) == (field, got, code, suggestion)
    assert problem.file == "file.yaml"


@pytest.mark.parametrize(
    "changes",
    [
        {"scaling/baseline": 2},
        {"scaling/modes": ["strong", "weak"]},
        {"scaling/workers": [1, 2, 4], "placement/layouts": ["1x1", "1x2", "2x1", "1x4", "2x2"]},
        {"scaling/batch": {}, "matrix": {"batch.perWorker": [8, 16]}},
        {"scaling/workers": [3], "workload": {"program": "allreduce"}, "scaling/batch": {}},
        {"scaling/workers": [1]},
        {"scaling/workers": [4]},
        {"scaling/workers": [1, 2, 4], "matrix": {"precision": ["fp32", "bf16"]},
         "exclude": [{"workers": 2, "precision": "bf16"}, {"workers": 4, "precision": "bf16"}]},
        {"workload": {"program": "tensorflow", "strategy": "mirrored", "crossDeviceOps": "hierarchical-copy"}},
        {"workload": {"program": "tensorflow", "strategy": "multi-worker-mirrored", "communication": "ring"}},
        {"workload": {"program": "horovod", "backend": "mpi"}},
        {"workload": {"program": "horovod", "launcher": "mpirun", "backend": "nccl"}, "runner": "MPIJob"},
        {"workload": {"program": "horovod"}, "matrix": {"allReduce": ["ring", "tree"], "options.commHook": ["fp16"]}},
        {"measure": {"accuracy": {"target": 0.9}}, "workload": {"model": "mlp", "data": {"source": "digits"}}},
        {"matrix": {"env.OMP_NUM_THREADS": [1, 2], "options.compile": [True, False]}},
        {"exclude": [{"workers": 2, "mode": "strong"}], "scaling/modes": ["strong", "weak"],
         "scaling/workers": [1, 2, 4]},
        {"workload": MPI, "matrix": {"allReduce": ["ring", "recursive-doubling", "rabenseifner", "tree", "auto"]}},
        {"workload": MPI | {"device": "cpu", "launcher": "mpirun"}, "runner": "MPIJob"},
        {"workload": {"program": "allreduce", "backend": "gloo", "allReduce": "hierarchical"},
         "placement/workersPerNode": 1},
        {"workload/launcher": "mpirun", "runner": "MPIJob"},
        {"workload": {"strategy": "fsdp", "options": {"shard": 2}}, "scaling/workers": [2, 4, 8]},
        {"workload/model": "gpt2_small", "matrix": {"data.sequenceLength": [256, 512, 1024],
         "options.activationCheckpointing": ["none", "selective", "full"], "strategy": ["ddp", "fsdp"]}},
        {"workload": {"model": "gpt2_small", "data": {"source": "tokens", "path": "/d", "column": "ids"}},
         "matrix": {"data.loaderWorkers": [0, 1, 2]}},
        CUSTOM,
        CUSTOM | {"workload/launcher": "processes"},
    ],
)  # fmt: skip
def test_what_is_allowed(changes: dict[str, Any]) -> None:
    assert not problems(changes)


def test_a_rule_names_the_line_of_its_field() -> None:
    text = yaml.safe_dump(changed({"scaling/baseline": 4}), sort_keys=False)
    (problem,) = validate_text(text, "file.yaml").problems
    assert text.splitlines()[(problem.line or 0) - 1].strip() == "baseline: 4"


def test_what_is_missing_has_the_line_around_it() -> None:
    text = yaml.safe_dump(changed({"scaling/batch/perWorker": REMOVED}), sort_keys=False)
    (problem,) = validate_text(text, "file.yaml").problems
    assert text.splitlines()[(problem.line or 0) - 1].strip() == "batch:"


def test_the_same_problem_at_many_points_is_reported_once() -> None:
    changes = {"workload": {"backend": "nccl", "device": "cpu"}, "matrix": {"env.A": list(range(100))}}
    assert len(check(experiment(changes))) == 1


def test_long_axes_are_not_listed_in_full() -> None:
    changes = {"matrix": {"env.A": [f"v{i}" for i in range(1000)]}, "exclude": [{"env.A": "w"}]}
    (problem,) = problems(changes)
    assert problem.message.endswith("v59 and 940 more")


def test_exclusions_that_cannot_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_api.planning.combinations._WORK", 5)
    ties = [{"env.A": i, "env.B": i} for i in range(5)]
    (problem,) = problems({"matrix": {"env.A": list(range(9)), "env.B": list(range(9))}, "exclude": ties})
    assert (problem.field, problem.code) == ("spec.exclude", "Invalid")
