"""Strategies of program torch that share out the model's state: FSDP, and ZeRO by DeepSpeed."""

from collections.abc import Iterator
from dataclasses import dataclass

from scalecurve_api.problem import Problem, expected, unsupported
from scalecurve_api.programs.torch import Division, TorchStrategy, TorchWorkload
from scalecurve_api.programs.torch_options import BatchNormMode
from scalecurve_api.programs.workload import Precision


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


@dataclass(frozen=True, kw_only=True, eq=False)
class DeepSpeed(TorchStrategy):
    """ZeRO by DeepSpeed's engine: stage 1 shares out optimizer state, 2 gradients too, and 3 parameters too."""

    stage: int

    def division(self, workload: TorchWorkload, workers: int) -> Division | None:
        return Division(workers if self.stage > 2 else 1, workers if self.stage > 1 else 1, workers)

    def problems(self, workload: TorchWorkload, workers: int) -> Iterator[Problem]:
        if workload.precision is Precision.fp16:
            yield workload.problem("precision", unsupported(f"with strategy {self}", "fp32, tf32 or bf16"))
        if workload.options.compile:
            yield workload.problem("options.compile", unsupported(f"with strategy {self}", "false"))


def _deepspeed(stage: int) -> DeepSpeed:
    return DeepSpeed(
        name=f"deepspeed-zero{stage}",
        wrapper=f"DeepSpeedEngine, ZeRO-{stage}",
        batch_norm=(BatchNormMode.local,),
        splits_layers=True,
        only_timed=True,
        stage=stage,
    )


FSDP = _FullySharded(
    name="fsdp",
    wrapper="FSDPModule",
    own_options=("fsdp_group_mb", "shard"),
    always_sent=("options.fsdpGroupMb",),
    batch_norm=(BatchNormMode.local, BatchNormMode.synchronized),
    splits_layers=True,
    gathers=True,
)
DEEPSPEED_ZERO1, DEEPSPEED_ZERO2, DEEPSPEED_ZERO3 = map(_deepspeed, (1, 2, 3))
