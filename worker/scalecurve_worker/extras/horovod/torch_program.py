"""``program: horovod``: the torch program, with Horovod in the place of DistributedDataParallel."""

from __future__ import annotations

import torch

from scalecurve_api.programs.horovod import HorovodWorkload
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.extras.horovod.library import join, load
from scalecurve_worker.extras.horovod.torch_strategy import distributed
from scalecurve_worker.process.identity import identify
from scalecurve_worker.torch.device import choose_device, set_arithmetic
from scalecurve_worker.torch.process_group import ask_for_algorithm, join_group
from scalecurve_worker.torch.program import carry_out


def run(trial: TrialSpec) -> None:
    """Train and time one trial on this rank, which mpirun started."""
    workload = trial.workload_as(HorovodWorkload)
    library = load(torch, "workload.program")
    device = choose_device(workload.device, identify().local_rank)
    set_arithmetic(workload.precision, device, workload.options.deterministic)
    if device.type == "cuda":
        ask_for_algorithm(workload.all_reduce, "nccl")
    # Ranks only meet in this group: no gradient goes through it.
    join_group("gloo", device)
    carrier = join(
        library,
        workload,
        device.type == "cuda",
        lambda name: library.allreduce(torch.ones(1024, device=device), name=name),
    )
    carry_out(trial, workload, device, distributed(library, carrier))
    library.shutdown()
