"""How a program of this folder begins: once a file is there, so that its start is not paid while GPUs are held."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


def wait() -> None:
    """Return once the file that ``$HOLD`` names is there; at once without one."""
    hold = os.environ.get("HOLD")
    while hold and not Path(hold).exists():
        time.sleep(0.05)


def join() -> torch.device:
    """This rank's device, once it waited and joined the group of its torchrun: NCCL on GPUs, else gloo."""
    wait()
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    return device
