"""The strategies of program tensorflow that are those of ``tf.distribute``."""

from collections.abc import Iterator

from scalecurve_api.features.tensorflow.fields import (
    Communication,
    CrossDeviceOps,
    TensorFlowStrategy,
    TensorFlowWorkload,
)
from scalecurve_api.problem import Problem, forbidden, unsupported
from scalecurve_api.programs.data import DataSource
from scalecurve_api.programs.training import Transfer
from scalecurve_api.programs.workload import DeviceType

GRPC = "grpc"  # what carries gradients and parameters to TensorFlow's parameter servers


class _OneDevice(TensorFlowStrategy):
    def carrier(self, workload: TensorFlowWorkload, on_gpu: bool) -> str | None:
        return None


class _Mirrored(TensorFlowStrategy):
    def carrier(self, workload: TensorFlowWorkload, on_gpu: bool) -> str | None:
        ops = workload.cross_device_ops
        return super().carrier(workload, on_gpu) if ops in (None, CrossDeviceOps.default) else str(ops)

    def problems(self, workload: TensorFlowWorkload, workers: int) -> Iterator[Problem]:
        ops = workload.cross_device_ops
        if ops is CrossDeviceOps.hierarchical_copy and workers % 2 and workers > 1:
            # Seen in TF 2.21: with 3 replicas the third is dropped from the sum, without any error.
            where = f"with {workers} workers, where its sums are silently wrong"
            yield workload.problem("crossDeviceOps", unsupported(where, "1 worker or an even number"))
        elif ops is CrossDeviceOps.nccl and workload.device is DeviceType.cpu:
            yield workload.problem("crossDeviceOps", unsupported("on device cpu", "another value"))


class _MultiWorkerMirrored(TensorFlowStrategy):
    def carrier(self, workload: TensorFlowWorkload, on_gpu: bool) -> str | None:
        named = workload.communication
        return super().carrier(workload, on_gpu) if named in (None, Communication.auto) else str(named)

    def problems(self, workload: TensorFlowWorkload, workers: int) -> Iterator[Problem]:
        if workload.communication is Communication.nccl and workload.device is DeviceType.cpu:
            yield workload.problem("communication", unsupported("on device cpu", "auto or ring"))


class _Served(TensorFlowStrategy):
    def carrier(self, workload: TensorFlowWorkload, on_gpu: bool) -> str | None:
        return GRPC

    def problems(self, workload: TensorFlowWorkload, workers: int) -> Iterator[Problem]:
        if workload.data.source is not DataSource.synthetic:
            reason = "with TensorFlow's parameter servers"
            yield workload.problem("data.source", unsupported(reason, "synthetic"))
        for name in workload.data.augments:
            reason = "workers of TensorFlow's parameter servers take random batches"
            yield workload.problem(f"data.{name}", forbidden(reason))
        if workload.transfer != Transfer():
            yield workload.problem("transfer", forbidden("TensorFlow's parameter servers are only timed"))


ONE_DEVICE = _OneDevice(name="one-device", wrapper="OneDeviceStrategy", one_worker=True)
MIRRORED = _Mirrored(name="mirrored", wrapper="MirroredStrategy", one_process=True, own_fields=("crossDeviceOps",))
MULTI_WORKER_MIRRORED = _MultiWorkerMirrored(
    name="multi-worker-mirrored", wrapper="CollectiveAllReduceStrategy", own_fields=("communication",)
)
PARAMETER_SERVER = _Served(
    name="parameter-server",
    wrapper="ParameterServerStrategyV2",
    one_copy="on the servers",
    served=True,
    only_timed="TensorFlow's parameter servers are only timed",
    own_fields=("parameterServer",),
)
