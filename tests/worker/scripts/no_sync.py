"""Windows without communication must leave no trace: train, drift, put back, train; against training alone."""

import sys

import torch
import torch.distributed as dist

from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.torch_options import TorchOptions
from scalecurve_api.programs.workload import Precision
from scalecurve_worker.rendezvous.torch_store import TorchCommunicator
from scalecurve_worker.torch.alternates import NoSync, PeakMemory
from scalecurve_worker.torch.job import split_batch
from scalecurve_worker.torch.models import build
from scalecurve_worker.torch.parameters import parameter_checksum
from scalecurve_worker.torch.strategies import ddp
from scalecurve_worker.torch.training import Trainer

CPU = torch.device("cpu")


def trainer(options: TorchOptions) -> Trainer:
    torch.manual_seed(0)
    workload = TorchWorkload(options=options, optimizer=Optimizer(name="adamw", learning_rate=0.001))
    spread = ddp(build("resnet20", input_shape=[3, 8, 8]), CPU, workload)
    return Trainer(spread, spread.module, Precision.fp32, CPU)


def batches(parts: int) -> list[list[tuple[torch.Tensor, torch.Tensor]]]:
    generator = torch.Generator().manual_seed(dist.get_rank())
    made = [
        (torch.randn(4, 3, 8, 8, generator=generator), torch.randint(10, (4,), generator=generator)) for _ in range(6)
    ]
    return [split_batch(batch, parts) for batch in made]


dist.init_process_group("gloo")
ranks = TorchCommunicator()
failed = []
for static_graph, view, parts in ((False, False, 1), (False, True, 2), (True, True, 1), (True, False, 2)):
    options = TorchOptions(static_graph=static_graph, gradient_as_bucket_view=view)
    data = batches(parts)
    straight, broken = trainer(options), trainer(options)
    for batch in data:
        straight.update(batch)
    alternate = NoSync(broken, PeakMemory(CPU))
    for batch in data[:3]:
        broken.update(batch)
    alternate.enter()
    for batch in data[:3]:
        alternate.update(batch)
    drifted = ranks.all_gather(parameter_checksum(broken.wrapped.module))
    alternate.leave()
    for batch in data[3:]:
        broken.update(batch)
    ends = ranks.all_gather([parameter_checksum(each.wrapped.module) for each in (straight, broken)])
    if drifted[0] == drifted[1]:
        failed.append(f"{options} {parts}: no_sync communicated")
    if len({checksum for end in ends for checksum in end}) != 1:
        failed.append(f"{options} {parts}: a trace was left, {ends}")
dist.destroy_process_group()
sys.exit("\n".join(failed) or 0)
