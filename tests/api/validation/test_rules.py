"""Rules over several fields: what a well-formed experiment must also keep."""

from typing import Any

import pytest
import yaml

from scalecurve_api.planning.plan import MAX_TRIALS
from scalecurve_api.validation.rules import check
from scalecurve_api.validation.validate import validate_text
from tests.api.example_experiments import REMOVED, changed, experiment, problems

MPI = {"program": "allreduce", "backend": "mpi"}
CUSTOM = {"workload": {"program": "custom", "command": ["python", "train.py"]}}


@pytest.mark.parametrize(
    ("changes", "field", "given", "allowed", "suggestion"),
    [
        # the scaling itself
        ({"scaling/workers": [1, 2, 1]}, "spec.scaling.workers[2]", 1, "each value once", None),
        ({"scaling/modes": ["weak", "weak"]}, "spec.scaling.modes[1]", "weak", "each value once", None),
        ({"scaling/baseline": 4}, "spec.scaling.baseline", 4, "auto, or a worker count: 1, 2", None),
        ({"scaling/batch": {"global": 16}}, "spec.scaling.batch.perWorker", "nothing",
         "required for weak scaling, in samples", None),
        ({"scaling/batch/ladder": {"from": 32}}, "spec.scaling.batch.perWorker", 8,
         "left out beside ladder, which sets it", None),
        ({"scaling/batch": {"ladder": {"from": 32}}, "matrix": {"batch.perWorker": [1]}}, "spec.matrix.batch.perWorker",
         [1], "left out beside batch.ladder", None),
        ({"scaling/batch": {"global": 16, "ladder": {"from": 32}}, "scaling/modes": ["strong"]}, "spec.scaling.modes",
         ["strong"], "[weak] with batch.ladder: it raises the batch per worker", None),
        ({"scaling/batch": {"ladder": {"from": 32, "factor": 1024}}}, "spec.scaling.batch.ladder.maxBatches", 8,
         f"a smaller factor or maxBatches: the largest batch would be {32 * 1024**7:,}, more than {1 << 40:,}", None),
        ({"scaling/batch": {}, "scaling/modes": ["strong"]}, "spec.scaling.batch.global", "nothing",
         "required for strong scaling, in samples", None),
        ({"scaling/workers": [1, 2, 3], "scaling/modes": ["strong"]}, "spec.scaling.batch.global", 16,
         "a multiple of 3 for strong scaling to 3 workers, such as 15 or 18", None),
        ({"scaling/workers": [1, 32], "scaling/modes": ["strong"]}, "spec.scaling.batch.global", 16,
         "a multiple of 32 for strong scaling to 32 workers, such as 32", None),
        ({"scaling/workers": [1, 2], "scaling/modes": ["strong"], "workload/options": {"gradientAccumulation": 16}},
         "spec.scaling.batch.global", 16,
         "a multiple of 32 for strong scaling to 2 workers x 16 gradientAccumulation, such as 32", None),
        ({"scaling/modes": ["strong"], "scaling/workers": [1, 2, 4], "matrix": {"batch.global": [16, 18]}},
         "spec.matrix.batch.global", 18, "a multiple of 4 for strong scaling to 4 workers, such as 16 or 20", None),
        ({"workload/options": {"gradientAccumulation": 3}}, "spec.scaling.batch.perWorker", 8,
         "a multiple of gradientAccumulation, 3", None),
        ({"matrix": {"options.gradientAccumulation": [1, 3]}}, "spec.scaling.batch.perWorker", 8,
         "a multiple of gradientAccumulation, 3", None),
        # the report
        ({"report": {"x": "precision"}}, "spec.report.x", "precision", "an axis that varies: workers", None),
        ({"report": {"x": "depth"}, "matrix": {"precision": ["fp32", "bf16"]}}, "spec.report.x", "depth",
         "an axis that varies: workers, precision", None),
        ({"report": {"x": "workers"}, "scaling/workers": [1]}, "spec.report.x", "workers",
         "left out: nothing varies", None),
        # the placement
        ({"placement": {"workersPerNode": 2, "layouts": ["1x1", "1x2"]}}, "spec.placement.layouts", ["1x1", "1x2"],
         "either layouts or workersPerNode, not both", None),
        ({"placement/layouts": ["1x1", "1x2", "2x2"]}, "spec.placement.layouts[2]", "2x2",
         "a layout that gives a worker count (1, 2), and it gives 4", None),
        ({"placement/layouts": ["1x1"]}, "spec.scaling.workers[1]", 2,
         "a worker count that a layout gives (1x1)", None),
        ({"scaling/workers": [1, 6], "placement/workersPerNode": 4}, "spec.scaling.workers[1]", 6,
         "a multiple of placement.workersPerNode, 4, or fewer", None),
        ({"scaling/workers": [100, 101], "placement/workersPerNode": 1, "placement/nesting": "require"},
         "spec.scaling.workers[1]", 101, "on at most 100 nodes with placement.nesting: require; use prefer", None),
        # variables
        ({"workload/env": {"NCCL_DEBUG": "INFO", "TF_CONFIG": "{}"}}, "spec.workload.env.TF_CONFIG", "{}",
         "another name: this one tells each process its rank, and is set for each of them", None),
        ({"workload/env": {"PET_NNODES": "2"}}, "spec.workload.env.PET_NNODES", "2",
         "another name: this one tells each process its rank, and is set for each of them", None),
        ({"matrix": {"env.MASTER_PORT": ["1", "2"]}}, "spec.matrix.env.MASTER_PORT", ["1", "2"],
         "another name: this one tells each process its rank, and is set for each of them", None),
        # measuring
        ({"measure": {"warmupSteps": 30, "maxWarmupSteps": 20}}, "spec.measure.maxWarmupSteps", 20,
         "at least warmupSteps, 30", None),
        ({"measure": {"accuracy": {}}}, "spec.workload.data.source", "synthetic",
         "real data for measure.accuracy: digits, fashion-mnist, cifar10, image-folder", None),
        # further axes
        ({"matrix": {"allreduce": ["ring"]}}, "spec.matrix.allreduce", "an unknown axis 'allreduce'",
         "a field of the workload: program,", "allReduce"),
        ({"matrix": {"workers": [1, 2]}}, "spec.matrix.workers", "an unknown axis 'workers'",
         "another axis: workers is set by spec.scaling and spec.placement", None),
        ({"matrix": {"precision": ["fp32", "bf16", "fp32"]}}, "spec.matrix.precision[2]", "fp32",
         "each value once", None),
        ({"matrix": {"env.A": [1, "1"]}}, "spec.matrix.env.A[1]", "1", "each value once", None),
        ({"matrix": {"precision": ["fp32", "fp8"]}}, "spec.matrix.precision[1]", "fp8", "'fp32', 'tf32'", None),
        ({"matrix": {"options.compile": ["yes"]}}, "spec.matrix.options.compile[0]", "yes", "a boolean", None),
        ({"matrix": {"batch.perWorker": [8, 0]}}, "spec.matrix.batch.perWorker[1]", 0,
         "greater than or equal to 1", None),
        # exclusions
        ({"exclude": [{}]}, "spec.exclude[0]", "{}", "at least one axis and its value", None),
        ({"exclude": [{"wokers": 1}]}, "spec.exclude[0].wokers", "an unknown axis 'wokers'",
         "one of mode, workers, layout", "workers"),
        ({"exclude": [{"precision": "fp32"}]}, "spec.exclude[0].precision", "an unknown axis 'precision'",
         "one of mode, workers, layout", None),
        ({"exclude": [{"workers": 4}]}, "spec.exclude[0].workers", 4, "a value that axis has: 1, 2", None),
        ({"exclude": [{"workers": True}]}, "spec.exclude[0].workers", True, "a value that axis has: 1, 2", None),
        ({"exclude": [{"layout": "2x1"}]}, "spec.exclude[0].layout", "2x1", "a value that axis has: 1x1, 1x2", None),
        ({"exclude": [{"mode": "weak"}]}, "spec.exclude", "rules that leave no trial", "at least one trial", None),
        # size
        ({"matrix": {f"env.A{i}": list(range(10)) for i in range(12)}}, "spec", f"more than {MAX_TRIALS} trials",
         f"at most {MAX_TRIALS} trials; make an axis shorter, or exclude combinations", None),
        # the workload
        ({"workload/model": "resnet-50"}, "spec.workload.model", "resnet-50", "one of resnet18, resnet34", "resnet50"),
        ({"matrix": {"model": ["resnet50", "vgg_16"]}}, "spec.matrix.model", "vgg_16", "one of resnet18", "vgg16"),
        ({"workload/data": {"source": "cifar10"}}, "spec.workload.data.path", "nothing",
         "the folder that holds cifar10", None),
        ({"workload/options": {"compile": True, "staticGraph": True}}, "spec.workload.options.staticGraph", True,
         "false with compile: DDP's static graph is eager only", None),
        ({"workload/options": {"compile": True}, "matrix": {"options.staticGraph": [True, False]}},
         "spec.matrix.options.staticGraph", True, "false with compile: DDP's static graph is eager only", None),
        ({"workload/launcher": "processes"}, "spec.workload.launcher", "processes",
         "torchrun or mpirun: plain processes", None),
        # legality: strategy
        ({"workload/strategy": "mirrored"}, "spec.workload.strategy", "mirrored",
         "'ddp', 'single', 'dp', 'fsdp', 'zero1', 'deepspeed-zero1', 'deepspeed-zero2', 'deepspeed-zero3', "
         "'parameter-server' or 'mesh' for program torch", None),
        ({"workload": {"program": "horovod", "strategy": "ddp"}}, "spec.workload.strategy", "an unknown field",
         "strategy is a field of program torch and tensorflow", None),
        # legality: horovod
        ({"workload": {"program": "horovod", "backend": "gloo"}}, "spec.workload.backend", "gloo",
         "'auto', 'nccl' or 'mpi' for program horovod", None),
        ({"workload": {"program": "horovod", "launcher": "torchrun"}}, "spec.workload.launcher", "torchrun",
         "'mpirun' for program horovod", None),
        ({"workload": {"program": "horovod", "launcher": "processes"}}, "spec.workload.launcher", "processes",
         "'mpirun' for program horovod", None),
        ({"workload": {"program": "horovod"}, "runner": "PyTorchJob"}, "spec.runner", "PyTorchJob",
         "MPIJob or JobSet: no other job starts ranks with mpirun", None),
        ({"workload": {"program": "horovod", "precision": "fp16"}}, "spec.workload.precision", "fp16",
         "'fp32', 'tf32' or 'bf16' for program horovod", "bf16"),
        ({"workload": {"program": "horovod", "model": "resnet-50"}}, "spec.workload.model", "resnet-50",
         "one of resnet18", "resnet50"),
        ({"workload": {"program": "horovod", "device": "cpu", "allReduce": "ring"}}, "spec.workload.allReduce", "ring",
         "auto, unless NCCL carries the sums", None),
        ({"workload": {"program": "horovod", "allReduce": "rabenseifner"}}, "spec.workload.allReduce", "rabenseifner",
         "'auto', 'ring' or 'tree' for program horovod", None),
        ({"workload": {"program": "horovod", "options": {"commHook": "powersgd"}}}, "spec.workload.options.commHook",
         "powersgd", "'none' or 'fp16' for program horovod", None),
        ({"workload": {"program": "horovod", "options": {"batchNorm": "broadcast"}}}, "spec.workload.options.batchNorm",
         "broadcast", "'local' for program horovod", None),
        ({"workload": {"program": "horovod", "options": {"channelsLast": True}}}, "spec.workload.options.channelsLast",
         True, "false for program horovod", None),
        ({"workload": {"program": "horovod", "options": {"staticGraph": True}}}, "spec.workload.options.staticGraph",
         "an unknown field", "is a field of program torch", None),
        ({"workload": {"program": "horovod", "device": "cpu", "backend": "nccl"}}, "spec.workload.backend", "nccl",
         "gloo or mpi on device cpu: NCCL needs GPUs", None),
        ({"workload/strategy": "single"}, "spec.workload.strategy", "single",
         "1 worker only, and the experiment has a point with 2", None),
        ({"workload": {"program": "tensorflow", "strategy": "one-device"}}, "spec.workload.strategy", "one-device",
         "1 worker only, and the experiment has a point with 2", None),
        ({"workload/strategy": "dp", "placement/workersPerNode": 1}, "spec.workload.strategy", "dp",
         "one node only, and the layout has 2", None),
        ({"workload": {"strategy": "dp", "device": "cpu"}}, "spec.workload.strategy", "dp",
         "another strategy on device cpu: DataParallel does nothing there", None),
        ({"workload": {"program": "tensorflow", "strategy": "mirrored"}, "placement/workersPerNode": 1},
         "spec.workload.strategy", "mirrored", "one node only, and the layout has 2", None),
        ({"matrix": {"strategy": ["ddp", "single"]}}, "spec.matrix.strategy", "single",
         "1 worker only, and the experiment has a point with 2", None),
        # legality: device and library
        ({"workload/backend": "mpi"}, "spec.workload.backend", "mpi",
         "'auto', 'nccl' or 'gloo' for program torch", None),
        ({"workload": {"backend": "nccl", "device": "cpu"}}, "spec.workload.backend", "nccl",
         "gloo or mpi on device cpu: NCCL needs GPUs", None),
        ({"workload": {"precision": "fp16", "device": "cpu"}}, "spec.workload.precision", "fp16",
         "fp32 or bf16 on device cpu", None),
        ({"workload/device": "cpu", "matrix": {"precision": ["fp32", "tf32"]}}, "spec.matrix.precision", "tf32",
         "fp32 or bf16 on device cpu", None),
        ({"workload": {"allReduce": "tree", "device": "cpu"}}, "spec.workload.allReduce", "tree",
         "auto or ring: gloo on CPUs has no tree all-reduce", None),
        ({"workload": {"allReduce": "tree", "backend": "gloo"}}, "spec.workload.allReduce", "tree",
         "auto or ring: gloo on CPUs has no tree all-reduce", None),
        ({"workload": {"program": "tensorflow", "strategy": "mirrored", "allReduce": "ring"}},
         "spec.workload.allReduce", "an unknown field",
         "allReduce is a field of program torch", None),
        ({"matrix": {"allReduce": ["rings"]}}, "spec.matrix.allReduce[0]", "rings", "'ring', 'tree', 'recursive", None),
        ({"workload/allReduce": "rabenseifner"}, "spec.workload.allReduce", "rabenseifner",
         "auto, ring, tree with NCCL; rabenseifner needs program allreduce with backend mpi", None),
        ({"workload/allReduce": "parameter-server"}, "spec.workload.allReduce", "parameter-server",
         "auto, ring or tree: parameter-server needs program allreduce", None),
        ({"workload": {"program": "allreduce", "allReduce": "hierarchical"}}, "spec.workload.allReduce",
         "hierarchical", "a layout of several nodes (spec.placement): it sums inside a node, then across nodes", None),
        ({"workload": {"program": "allreduce", "backend": "gloo"}, "matrix": {"allReduce": ["ring", "tree"]}},
         "spec.matrix.allReduce", "tree", "auto or ring: gloo on CPUs has no tree all-reduce", None),
        ({"workload": MPI | {"model": "resnet-50", "sizes": {"payload": "buckets"}}}, "spec.workload.model",
         "resnet-50", "one of resnet18, resnet34", "resnet50"),
        ({"workload": MPI | {"launcher": "torchrun"}}, "spec.workload.launcher", "torchrun",
         "mpirun with backend mpi: it starts MPI's ranks", None),
        ({"workload": MPI | {"device": "gpu"}}, "spec.workload.device", "gpu",
         "cpu or auto with backend mpi: its messages are in host memory", None),
        ({"workload": MPI | {"sizes": {"dtype": "bfloat16"}}}, "spec.workload.sizes.dtype", "bfloat16",
         "float32 with backend mpi: MPI cannot sum 16-bit floating-point numbers", None),
        ({"workload": MPI, "runner": "PyTorchJob"}, "spec.runner", "PyTorchJob",
         "MPIJob or JobSet: no other job starts ranks with mpirun", None),
        # legality: TensorFlow's own switches
        ({"workload": {"crossDeviceOps": "nccl"}}, "spec.workload.crossDeviceOps", "an unknown field",
         "crossDeviceOps is a field of program tensorflow", None),
        ({"scaling/workers": [1, 2, 3],
          "workload": {"program": "tensorflow", "strategy": "mirrored", "crossDeviceOps": "hierarchical-copy"}},
         "spec.workload.crossDeviceOps", "hierarchical-copy",
         "1 or an even number of workers: with 3 its sums are silently wrong", None),
        ({"workload": {"program": "tensorflow", "strategy": "mirrored", "crossDeviceOps": "nccl", "device": "cpu"}},
         "spec.workload.crossDeviceOps", "nccl", "another value on device cpu: NCCL needs GPUs", None),
        ({"workload": {"communication": "ring"}}, "spec.workload.communication", "an unknown field",
         "communication is a field of program tensorflow", None),
        ({"workload": {"program": "tensorflow", "strategy": "multi-worker-mirrored", "communication": "nccl",
                       "device": "cpu"}},
         "spec.workload.communication", "nccl", "auto or ring on device cpu: NCCL needs GPUs", None),
        # legality: torch's own switches
        ({"workload": {"strategy": "fsdp", "options": {"commHook": "fp16"}}}, "spec.workload.options.commHook",
         "fp16", "none: compression goes with strategy ddp", None),
        ({"workload/options": {"commHook": "fp16", "commHookRank": 2}}, "spec.workload.options.commHookRank", 2,
         "left out: it goes with commHook powersgd", None),
        ({"workload/options": {"commHookDensity": 0.1}}, "spec.workload.options.commHookDensity", 0.1,
         "left out: it goes with commHook top-k", None),
        ({"workload": {"strategy": "fsdp", "options": {"batchNorm": "broadcast"}}}, "spec.workload.options.batchNorm",
         "broadcast", "one of local, synchronized for strategy fsdp", None),
        ({"workload": {"options": {"batchNorm": "synchronized"}, "device": "cpu"}},
         "spec.workload.options.batchNorm", "synchronized",
         "broadcast or local on device cpu: synchronized needs GPUs", None),
        ({"workload/options": {"keepThreads": True}}, "spec.workload.options.keepThreads", True,
         "left out: it goes with strategy dp", None),
        ({"workload": {"program": "tensorflow", "strategy": "mirrored"}, "measure": {"trace": {}}},
         "spec.measure.trace", {"steps": 3, "keep": False},
         "left out: torch's profiler sees no steps of program tensorflow", None),
        ({"workload/options": {"overlap": False}, "workload/strategy": "zero1"}, "spec.workload.options.overlap", False,
         "left out: it goes with strategy ddp", None),
        ({"workload/options": {"overlap": False, "bucketCapMb": 4}}, "spec.workload.options.bucketCapMb", 4,
         "left out with overlap false: all gradients are one bucket", None),
        ({"workload/options": {"fsdpGroupMb": 64}}, "spec.workload.options.fsdpGroupMb", 64,
         "left out: it goes with strategy fsdp", None),
        ({"workload": {"program": "horovod", "options": {"fsdpGroupMb": 64}}},
         "spec.workload.options.fsdpGroupMb", "an unknown field",
         "is a field of program torch", None),
        ({"workload": {"strategy": "zero1", "options": {"staticGraph": True}}}, "spec.workload.options.staticGraph",
         True, "false for strategy zero1", None),
        ({"workload": {"strategy": "dp", "options": {"compile": True}}}, "spec.workload.options.compile", True,
         "false for strategy dp: it makes new replicas in every step", None),
        ({"workload": {"strategy": "fsdp", "optimizer": {"name": "lamb"}}}, "spec.workload.optimizer.name", "lamb",
         "a rule other than lars and lamb: fsdp splits layers, and lamb needs each layer's norm", None),
        ({"workload": {"strategy": "deepspeed-zero2", "optimizer": {"name": "lars"}}}, "spec.workload.optimizer.name",
         "lars", "a rule other than lars and lamb: deepspeed-zero2 splits layers", None),
        ({"workload": {"strategy": "deepspeed-zero1", "precision": "fp16"}}, "spec.workload.precision", "fp16",
         "fp32, tf32 or bf16 for strategy deepspeed-zero1", None),
        ({"workload": {"strategy": "deepspeed-zero3", "options": {"compile": True}}}, "spec.workload.options.compile",
         True, "false for strategy deepspeed-zero3", None),
        ({"workload": {"strategy": "deepspeed-zero3", "model": "mlp", "data": {"source": "digits"}},
          "measure": {"accuracy": {"epochs": 1}}}, "spec.measure.accuracy", "epochs",
         "left out: strategy deepspeed-zero3 is only timed", None),
        ({"workload/optimizer": {"name": "rmsprop", "fused": True}}, "spec.workload.optimizer.fused", True,
         "false, or optimizer sgd, adam, adamw, adagrad", None),
        # legality: shards, recomputation and language models
        ({"workload/options": {"shard": 2}}, "spec.workload.options.shard", 2,
         "left out: it goes with strategy fsdp", None),
        ({"scaling/workers": [2, 3], "workload": {"strategy": "fsdp", "options": {"shard": 2}}},
         "spec.workload.options.shard", 2, "0, or a divisor of the 3 workers of every point", None),
        ({"workload/options": {"activationCheckpointing": "full"}}, "spec.workload.options.activationCheckpointing",
         "full", "none for model resnet18: only blocks of transformers", None),
        ({"workload": {"program": "horovod", "options": {"activationCheckpointing": "full"}}},
         "spec.workload.options.activationCheckpointing", "full", "none for model resnet18", None),
        ({"workload/options": {"deterministic": True, "cudnnBenchmark": True}}, "spec.workload.options.cudnnBenchmark",
         True, "left out or false with deterministic", None),
        ({"workload/data": {"sequenceLength": 8}}, "spec.workload.data.sequenceLength", 8,
         "left out: model resnet18 reads no tokens", None),
        ({"workload": {"model": "gpt2_tiny", "data": {"sequenceLength": 8, "shape": [8]}}},
         "spec.workload.data.sequenceLength", 8, "left out beside shape, which sets the length, too", None),
        ({"workload/data": {"source": "tokens", "path": "/d"}}, "spec.workload.data.source", "tokens",
         "another source: model resnet18 reads no tokens", None),
        ({"workload": {"model": "gpt2_tiny", "data": {"source": "tokens"}}}, "spec.workload.data.path", "nothing",
         "the folder that holds tokens", None),
        ({"workload": {"model": "gpt2_tiny", "data": {"source": "digits"}}}, "spec.workload.data.source", "digits",
         "synthetic or tokens for model gpt2_tiny", None),
        ({"workload/data": {"column": "ids"}}, "spec.workload.data.column", "ids",
         "left out: it goes with source tokens", None),
        ({"workload/data": {"loaderWorkers": 2}}, "spec.workload.data.loaderWorkers", 2,
         "left out: it goes with source image-folder or tokens", None),
        ({"workload": {"program": "tensorflow", "strategy": "mirrored", "data": {"source": "tokens", "path": "/d"}}},
         "spec.workload.data.source", "tokens", "another source: model resnet18 reads no tokens", None),
        ({"workload": {"program": "tensorflow", "strategy": "mirrored", "optimizer": {"name": "adam", "fused": True}}},
         "spec.workload.optimizer.fused", True, "left out: it goes with programs torch and horovod", None),
        ({"workload/optimizer": {"milestones": [3]}}, "spec.workload.optimizer.milestones", [3],
         "none: milestones go with decay multi-step only", None),
        ({"workload/optimizer": {"decay": "multi-step"}}, "spec.workload.optimizer.milestones", [],
         "the epochs after which the rate falls", None),
        # legality: parameter servers
        ({"workload/parameterServer": {"servers": 2}}, "spec.workload.parameterServer", "servers",
         "left out: it goes with strategy parameter-server", None),
        ({"workload": {"strategy": "parameter-server", "backend": "gloo"}}, "spec.workload.backend", "gloo",
         "auto: workers reach parameter servers over TCP", None),
        ({"workload": {"strategy": "parameter-server", "parameterServer": {"backupWorkers": 1}}},
         "spec.workload.parameterServer.backupWorkers", 1, "0: asynchronous updates wait for no worker", None),
        ({"workload": {"strategy": "parameter-server",
                       "parameterServer": {"backupWorkers": 2, "updates": "synchronous"}}},
         "spec.workload.parameterServer.backupWorkers", 2, "fewer than the 2 workers of every point", None),
        ({"workload": {"strategy": "parameter-server",
                       "parameterServer": {"backupWorkers": 1, "servers": 2, "updates": "synchronous"}}},
         "spec.workload.parameterServer.backupWorkers", 1, "0 with 2 servers, or servers: 1", None),
        ({"workload": {"strategy": "parameter-server",
                       "parameterServer": {"stalenessAware": True, "updates": "synchronous"}}},
         "spec.workload.parameterServer.stalenessAware", True, "false: synchronous updates are never stale", None),
        # legality: commands and sizes
        ({"workload": {"program": "custom"}}, "spec.workload.command", "nothing",
         "required. Command that starts one worker", None),
        ({"workload/command": ["python"]}, "spec.workload.command", "an unknown field",
         "command is a field of program custom", None),
        ({"workload": {"program": "allreduce", "sizes": {"minBytes": 1024, "maxBytes": 8}}},
         "spec.workload.sizes.maxBytes", 8, "at least minBytes, 1024", None),
    ],
)  # fmt: skip
def test_a_broken_rule(
    changes: dict[str, Any], field: str, given: object, allowed: str, suggestion: str | None
) -> None:
    (problem,) = problems(changes)
    assert problem.field == field
    assert problem.given == given or str(given) in str(problem)
    assert allowed in problem.allowed
    assert problem.suggestion == suggestion
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
        {"matrix": {"strategy": ["zero1", "deepspeed-zero1", "deepspeed-zero2", "deepspeed-zero3"]}},
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


def test_the_same_finding_over_many_points_is_said_once() -> None:
    changes = {"workload": {"backend": "nccl", "device": "cpu"}, "matrix": {"env.A": list(range(100))}}
    assert len(check(experiment(changes))) == 1


def test_long_axes_are_not_listed_in_full() -> None:
    changes = {"matrix": {"env.A": [f"v{i}" for i in range(1000)]}, "exclude": [{"env.A": "w"}]}
    (problem,) = problems(changes)
    assert problem.allowed.endswith("v59 and 940 more")


def test_exclusions_that_cannot_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_api.planning.combinations._WORK", 5)
    ties = [{"env.A": i, "env.B": i} for i in range(5)]
    (problem,) = problems({"matrix": {"env.A": list(range(9)), "env.B": list(range(9))}, "exclude": ties})
    assert (problem.field, problem.allowed) == ("spec.exclude", "fewer rules, or rules over fewer axes")
    assert problem.given == "the exclusions tie too many axes together to be counted"
