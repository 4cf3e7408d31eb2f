"""What makes equal training loops differ on one GPU? ResNet-50, bf16, batch 256, DDP; see docs/evidence/h200.

    PYTHONPATH=api:worker python -m benchmarks.probes.fidelity_causes OUT.json [SECONDS]

Each measurement is a process of its own (forked before CUDA starts, so that cuDNN searches afresh), in turns:
``plain`` is the loop as it stands; ``twin`` has a second model beside it, as exposed communication does at one worker;
``heuristic`` has cuDNN's search off; ``churn`` holds other memory, so that everything lies elsewhere. Kernels of one
step are listed by the profiler after the timing. ``nvml`` times the loop while a thread asks NVML one question.
"""

import copy
import hashlib
import json
import multiprocessing
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from scalecurve_worker.torch.models import build

BATCH, WARMUP, STEPS = 256, 25, 40
# Not asked of torch: CUDA must not start before the fork.
DEVICE = "cuda" if os.path.exists("/dev/nvidiactl") else "cpu"
if DEVICE == "cpu":
    BATCH, WARMUP, STEPS = 1, 1, 2


Data = list[tuple[Tensor, Tensor]]
Question = tuple[str, Callable[[], object]]


class Loop:
    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def run(self, data: Data, steps: int) -> float:
        synchronize()
        began = time.perf_counter()
        for index in range(steps):
            inputs, targets = data[index % len(data)]
            self.optimizer.zero_grad(set_to_none=True)
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                loss = F.cross_entropy(self.model(inputs), targets)
            loss.backward()
            self.optimizer.step()
        synchronize()
        return (time.perf_counter() - began) / steps * 1e3


def synchronize() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def start(kind: str, index: int) -> tuple[Loop, Loop | None, Data, list[Tensor]]:
    kept: list[Tensor] = []
    if DEVICE == "cuda":
        torch.cuda.set_device(0)
    dist.init_process_group(
        "nccl" if DEVICE == "cuda" else "gloo",
        store=torch._C._distributed_c10d.HashStore(),
        rank=0,
        world_size=1,
        device_id=torch.device("cuda", 0) if DEVICE == "cuda" else None,
    )
    torch.backends.cudnn.benchmark = kind != "heuristic"
    if kind == "churn":
        draw = random.Random(index)
        kept = [torch.empty(draw.randrange(1, 300) * 1_000_003, dtype=torch.uint8, device=DEVICE) for _ in range(4)]
    torch.manual_seed(0)
    model = build("resnet50").to(DEVICE).to(memory_format=torch.channels_last)
    twin = Loop(copy.deepcopy(model)) if kind == "twin" else None
    ids = [torch.device("cuda", 0)] if DEVICE == "cuda" else None
    loop = Loop(DistributedDataParallel(model, device_ids=ids, gradient_as_bucket_view=True))
    data = []
    for _ in range(4):
        inputs = torch.randn(BATCH, 3, 224, 224, device=DEVICE).to(memory_format=torch.channels_last)
        data.append((inputs, torch.randint(1000, (BATCH,), device=DEVICE)))
    return loop, twin, data, kept


def kernels(loop: Loop, data: Data) -> dict[str, list[float]]:
    activity = torch.profiler.ProfilerActivity.CUDA if DEVICE == "cuda" else torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity]) as profile:
        loop.run(data, 2)
    found: dict[str, list[float]] = {}
    for event in profile.key_averages():
        found[event.key] = [event.count / 2, round(event.device_time_total / 2)]
    return found


def child(kind: str, index: int, queue: Any) -> None:
    loop, twin, data, kept = start(kind, index)
    loop.run(data, WARMUP)
    step_ms = [round(loop.run(data, STEPS // 2), 4) for _ in range(2)]
    said: dict[str, Any] = {"kind": kind, "index": index, "step_ms": step_ms}
    if twin:
        twin.run(data, WARMUP)
        said["twin_ms"] = round(twin.run(data, STEPS // 2), 4)
        said["after_ms"] = round(loop.run(data, STEPS // 2), 4)
    said["kernels"] = kernels(loop, data)
    names = sorted((name, round(count)) for name, (count, _) in said["kernels"].items() if "Memcpy" not in name)
    said["set"] = hashlib.sha256(json.dumps(names).encode()).hexdigest()[:8]
    queue.put(said)
    del kept
    dist.destroy_process_group()


def nvml(kind: str, index: int, queue: Any) -> None:
    loop, _, data, _ = start("plain", index)
    loop.run(data, WARMUP)
    said: dict[str, Any] = {"kind": kind, "questions": {}}
    for round_ in range(2):
        for name, ask in questions():
            said["questions"].setdefault(name, []).append(asked(loop, data, ask, 0.15 if round_ else 0.3))
    queue.put(said)
    dist.destroy_process_group()


def questions() -> list[Question]:
    nothing: Question = ("nothing", lambda: None)
    if DEVICE == "cpu":
        return [nothing]
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(0).uuid}")
    asks: list[Question] = [
        ("power", lambda: pynvml.nvmlDeviceGetPowerUsage(handle)),
        ("clock", lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        ("temperature", lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        ("reasons", lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        ("processes", lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle)),
        ("energy", lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)),
        ("violations", lambda: pynvml.nvmlDeviceGetViolationStatus(handle, pynvml.NVML_PERF_POLICY_POWER)),
    ]
    return [nothing, *asks, nothing]


def asked(loop: Loop, data: Data, ask: Callable[[], object], every: float) -> dict[str, Any]:
    """Step time while a thread asks; the calls made and the longest of them in ms."""
    calls: list[float] = []
    errors: list[str] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(every):
            began = time.perf_counter()
            try:
                ask()
            except Exception as error:
                errors.append(repr(error))
            calls.append((time.perf_counter() - began) * 1e3)

    thread = threading.Thread(target=watch)
    thread.start()
    step = loop.run(data, STEPS * 3 // 4)
    over.set()
    thread.join()
    return {
        "step_ms": round(step, 4),
        "calls": len(calls),
        "call_ms": [round(call, 2) for call in sorted(calls)],
        "errors": errors[:1],
    }


def main() -> None:
    out, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 300
    over, longest = time.monotonic() + seconds, 0.0
    found: list[dict[str, Any]] = []
    context = multiprocessing.get_context("fork")
    for index in range(40):
        for kind in ("plain", "twin", "heuristic", "churn") if index else ("nvml", "plain", "twin", "churn"):
            if time.monotonic() + longest > over or (kind == "heuristic" and index > 2):
                continue
            began = time.monotonic()
            queue: Any = context.Queue()
            process = context.Process(target=nvml if kind == "nvml" else child, args=(kind, index, queue))
            process.start()
            try:
                said = queue.get(timeout=120)
            except Exception as error:
                said = {"kind": kind, "index": index, "error": repr(error)}
            process.join(10)
            if process.is_alive():
                process.kill()
            found.append(said)
            if kind != "nvml":
                longest = max(longest, time.monotonic() - began)
            shown = {key: value for key, value in said.items() if key not in ("kernels", "questions")}
            print(json.dumps(shown), f"{time.monotonic() - began:.1f} s", flush=True)
            for name, each in said.get("questions", {}).items():
                print(f"  {name:<12}", json.dumps(each), flush=True)
            with open(out, "w") as file:
                json.dump(found, file)


if __name__ == "__main__":
    main()
