"""Strategy horovod of program tensorflow: Horovod's tape around the gradients."""

from scalecurve_api.features.horovod.fields import horovod_not_installed
from scalecurve_api.features.tensorflow.fields import TensorFlowStrategy, TensorFlowWorkload
from scalecurve_api.programs.all_reduce import resolved_backend
from scalecurve_api.programs.workload import Backend

TAPE = "DistributedGradientTape"  # what RankRecord.strategy must say


class _Horovod(TensorFlowStrategy):
    def carrier(self, workload: TensorFlowWorkload, on_gpu: bool) -> str | None:
        return resolved_backend(workload.backend, on_gpu, on_cpu=Backend.mpi).value

    def not_installed(self, workload: TensorFlowWorkload) -> str | None:
        return horovod_not_installed("strategy", workload.requires)


HOROVOD = _Horovod(
    name="horovod",
    wrapper=TAPE,
    over_mpi=True,
    own_fields=("options.commHook", "options.bucketCapMb"),
)
