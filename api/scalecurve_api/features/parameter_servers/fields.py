"""Strategy ``parameter-server`` of program torch: processes beside the workers hold the parameters."""

from collections.abc import Iterator

from scalecurve_api.problem import Problem, expected, unsupported
from scalecurve_api.programs.torch import Division, TorchStrategy, TorchWorkload
from scalecurve_api.programs.torch_options import BatchNormMode, Updates
from scalecurve_api.programs.workload import Backend

TCP = "tcp"  # what carries gradients to the parameter servers


class _Served(TorchStrategy):
    def carrier(self, workload: TorchWorkload, on_gpu: bool) -> str:
        return TCP

    def division(self, workload: TorchWorkload, workers: int) -> Division | None:
        return None

    def problems(self, workload: TorchWorkload, workers: int) -> Iterator[Problem]:
        servers = workload.parameter_server
        synchronous = servers.updates is Updates.synchronous
        field = "parameterServer.backupWorkers"
        if not workload.optimizer.decay_norm:
            reason = f"with strategy {self}, whose servers hold parameters as one vector"
            yield workload.problem("optimizer.decayNorm", unsupported(reason, "true"))
        if workload.backend is not Backend.auto:
            reason = "with parameter servers, which workers reach over TCP"
            yield workload.problem("backend", unsupported(reason, "auto"))
        if servers.backup_workers and not synchronous:
            reason = "with asynchronous updates, which wait for no worker"
            yield workload.problem(field, unsupported(reason, "0"))
        elif servers.backup_workers >= workers > 1:
            yield workload.problem(field, expected(f"fewer than {workers}, the workers of a point"))
        elif servers.backup_workers and servers.servers > 1:
            # Each server would drop the gradients that came last to it, and no sample would be counted correctly.
            yield workload.problem(field, unsupported(f"with {servers.servers} servers", "0, or servers: 1"))
        if servers.staleness_aware and synchronous:
            reason = "with synchronous updates, which are never stale"
            yield workload.problem("parameterServer.stalenessAware", unsupported(reason, "false"))


PARAMETER_SERVER = _Served(
    name="parameter-server",
    wrapper="ParameterServer",
    batch_norm=(BatchNormMode.local,),
    splits_layers=True,
    static_graph=True,
    served=True,
)
