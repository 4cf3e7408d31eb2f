"""Strategies of program torch by DeepSpeed's engine: the three stages of ZeRO."""

from collections.abc import Iterator
from dataclasses import dataclass

from scalecurve_api.problem import Problem, unsupported
from scalecurve_api.programs.torch import Division, TorchStrategy, TorchWorkload
from scalecurve_api.programs.torch_options import BatchNormMode
from scalecurve_api.programs.workload import Precision


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
        only_timed=f"strategy deepspeed-zero{stage} is only timed",
        stage=stage,
    )


ZERO1, ZERO2, ZERO3 = map(_deepspeed, (1, 2, 3))
