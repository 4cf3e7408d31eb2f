"""Strategy ``fsdp`` of program torch, which shares out the model's state."""

from collections.abc import Iterator

from scalecurve_api.problem import Problem, expected
from scalecurve_api.programs.torch import Division, TorchStrategy, TorchWorkload
from scalecurve_api.programs.torch_options import BatchNormMode


class _FullySharded(TorchStrategy):
    def copies(self, workload: TorchWorkload, workers: int) -> int:
        return workers // workload.options.shard if workload.options.shard else 1

    def division(self, workload: TorchWorkload, workers: int) -> Division | None:
        sharing = workload.options.shard or workers
        return Division(sharing, sharing, sharing)

    def problems(self, workload: TorchWorkload, workers: int) -> Iterator[Problem]:
        if workload.options.shard and workers % workload.options.shard:
            divisor = expected(f"a divisor of {workers}, the workers of a point, or 0")
            yield workload.problem("options.shard", divisor)


FSDP = _FullySharded(
    name="fsdp",
    wrapper="FSDPModule",
    own_options=("fsdp_group_mb", "shard"),
    always_sent=("options.fsdpGroupMb",),
    batch_norm=(BatchNormMode.local, BatchNormMode.synchronized),
    splits_layers=True,
    gathers=True,
)
