"""Strategies of program torch under which every process holds all parameters."""

from collections.abc import Iterator

from scalecurve_api.problem import Problem, unsupported
from scalecurve_api.programs.torch import Division, TorchStrategy, TorchWorkload
from scalecurve_api.programs.torch_options import BatchNormMode
from scalecurve_api.programs.workload import DeviceType

_BY_DDP = (BatchNormMode.broadcast, BatchNormMode.local, BatchNormMode.synchronized)
_BUCKET_VIEW = ("options.gradientAsBucketView",)


class _DataParallel(TorchStrategy):
    def division(self, workload: TorchWorkload, workers: int) -> Division | None:
        return None

    def problems(self, workload: TorchWorkload, workers: int) -> Iterator[Problem]:
        if workload.device is DeviceType.cpu:
            reason = "on device cpu, where DataParallel does nothing"
            yield workload.problem("strategy", unsupported(reason, "another strategy"))
        if workload.options.compile:
            reason = "with strategy dp, which makes new replicas each step"
            yield workload.problem("options.compile", unsupported(reason, "false"))


class _ZeroRedundancy(TorchStrategy):
    def division(self, workload: TorchWorkload, workers: int) -> Division | None:
        return Division(optimizer=workers)


SINGLE = TorchStrategy(
    name="single", wrapper="none", one_worker=True, full_replica=True, noise_scale=True, static_graph=True
)
DDP = TorchStrategy(
    name="ddp",
    wrapper="DistributedDataParallel",
    own_options=("overlap",),
    always_sent=_BUCKET_VIEW,
    batch_norm=_BY_DDP,
    full_replica=True,
    noise_scale=True,
    comm_hooks=True,
    static_graph=True,
    buckets=True,
)
DP = _DataParallel(
    name="dp",
    wrapper="DataParallel",
    one_process=True,
    one_copy="copied to every GPU in each step",
    own_options=("keep_threads",),
    always_sent=("options.keepThreads",),
    full_replica=True,
)
ZERO1 = _ZeroRedundancy(
    name="zero1",
    wrapper="DistributedDataParallel + ZeroRedundancyOptimizer",
    always_sent=_BUCKET_VIEW,
    batch_norm=_BY_DDP,
    full_replica=True,
    buckets=True,
)
