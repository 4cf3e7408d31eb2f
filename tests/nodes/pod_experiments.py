"""Experiments whose trials run in real pods: every runner at 1, 2 and 4 workers, over one node and over two.

They are small on purpose: what runs here shares the cores of one machine, and proves function, never speed.
"""

from typing import Any

from scalecurve_api.features.horovod.fields import WRAPPER
from scalecurve_api.features.horovod.strategy import TAPE
from tools.images import archives as images

Object = dict[str, Any]

MEASURE = {
    "warmupSteps": 2,
    "maxWarmupSteps": 8,
    "windows": 2,
    "stepsPerWindow": 4,
    "repetitions": 1,
    # All nodes are one machine, so everybody else's work counts as foreign.
    "maxForeignLoad": 1,
}
LAYOUTS = {1: ["1x1"], 2: ["1x2", "2x1"], 4: ["2x2"]}
"""workers → layouts; 1x4 would put four workers on a node's two cores."""
_MLP = {
    "program": "torch",
    "model": "mlp",
    "data": {"source": "synthetic", "shape": [1, 28, 28], "classes": 10},
    "device": "cpu",
}
YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1"}
"""Ranks that wait leave their core to those that they wait for, which on a machine with two cores matters."""
_SIZES = {"minBytes": 8, "maxBytes": 65536, "factor": 8, "iterations": 5, "warmup": 2}

KINDS: dict[str, Object] = {
    "mpi-allreduce": {
        "runner": "MPIJob",
        "workload": {
            "program": "allreduce",
            "backend": "mpi",
            "device": "cpu",
            "sizes": _SIZES,
            "env": YIELDING,
            "image": images.reference("worker-mpi"),
        },
    },
    "mpi-ddp": {"runner": "MPIJob", "workload": {**_MLP, "launcher": "mpirun"}},
    "pytorch-ddp": {"runner": "PyTorchJob", "workload": _MLP},
    "job-ddp": {"runner": "Job", "workload": _MLP},
    "tensorflow": {
        "runner": "TFJob",
        "workload": {
            "program": "tensorflow",
            "strategy": "multi-worker-mirrored",
            "model": "mlp",
            "data": {"source": "synthetic", "shape": [28, 28, 1], "classes": 10},
            "device": "cpu",
        },
    },
}

OVER_HOROVOD: dict[str, tuple[Object, str]] = {
    "horovod": ({**_MLP, "program": "horovod", "env": YIELDING}, WRAPPER),
    "tensorflow-horovod": (
        {
            **KINDS["tensorflow"]["workload"],
            "strategy": "horovod",
            "env": YIELDING,
            "image": images.reference("worker-tensorflow-horovod"),
        },
        TAPE,
    ),
}
"""name → a workload whose ranks mpirun starts and whose gradients Horovod adds up; what must be around it"""


def experiment(kind: str, namespace: str, workers: tuple[int, ...] = (1, 2, 4), **spec: Any) -> Object:
    """One of `KINDS` over all layouts of these worker counts; `spec` is added."""
    chosen = KINDS[kind]
    return manifest(
        kind,
        namespace,
        {
            "scaling": {"modes": ["weak"], "workers": list(workers), "batch": {"perWorker": 8}},
            "placement": {"layouts": [layout for count in workers for layout in LAYOUTS[count]]},
            "deadlineSeconds": 600,
            "measure": MEASURE,
            **chosen,
            **spec,
        },
    )


def manifest(name: str, namespace: str, spec: Object) -> Object:
    """A ScalingExperiment."""
    return {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
