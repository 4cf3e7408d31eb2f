"""``strategy: parameter-server`` under torch: parameters at servers, which change them by gradients of workers."""

from __future__ import annotations

import torch
from torch import nn

from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_worker.extras.parameter_server.worker import start
from scalecurve_worker.torch.strategies import WrappedModel


def parameter_server(model: nn.Module, device: torch.device, workload: TorchWorkload) -> WrappedModel:
    """Start the servers and join them."""
    client = start(model, workload)
    return WrappedModel(
        model,
        "ParameterServer",
        client.optimizer,
        unexposed="a worker has no update of its own: there is no step without the servers",
        traffic=client.traffic,
        remote=client,
        options={
            **workload.parameter_server.wire(),
            "serverPlacement": "server s is a process beside rank s modulo workers, on its cores",
        },
    )
