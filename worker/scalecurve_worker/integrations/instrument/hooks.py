"""What is hooked in the modules that a measured command imports: torch's own registration wherever it has one."""

import functools
import os
import sys
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from scalecurve_worker.integrations.instrument.samples import INDICES
from scalecurve_worker.process.injection import OWN_RANKS_ENV

if TYPE_CHECKING:
    from scalecurve_worker.integrations.instrument.loop import Loop

_loops: list["Loop"] = []


def imported(module: ModuleType) -> None:
    """Hook a watched module that has been executed."""
    _HOOKED[module.__name__](module)


def ended(command: bool = True) -> None:
    """Handle the end of a process without an error: say what was missing, if not enough was measured.

    ``command`` is false in processes that the command has started: they may have another purpose.
    """
    from scalecurve_worker.integrations.instrument.leaving import is_recorded, no_torch, refuse

    loop = _loops[0] if _loops else None
    if loop is None or not loop.updates:
        # It may have started what trains, or write its records by itself.
        if not command or OWN_RANKS_ENV in os.environ or is_recorded():
            return
        if loop is None:
            refuse(no_torch())
    if (why := loop.unfinished()) is not None:
        refuse(why)


def _torch(torch: Any) -> None:
    from torch.optim import optimizer

    from scalecurve_worker.integrations.instrument.loop import Loop
    from scalecurve_worker.record.session import Session

    loop = Loop()
    _loops.append(loop)
    Session.before_join = loop.step_aside
    optimizer.register_optimizer_step_pre_hook(lambda one, *_: loop.begin_update(one))
    optimizer.register_optimizer_step_post_hook(lambda one, *_: loop.end_update(one))
    _wrap(optimizer.Optimizer, "__init__", functools.partial(_made, loop))
    _wrap(torch.utils.data.DataLoader, "__iter__", functools.partial(_opened, loop))
    batches = torch.utils.data.dataloader._BaseDataLoaderIter
    _wrap(batches, "__next__", functools.partial(_taken, loop))
    _wrap(batches, "_next_index", _sampled)
    _wrap(batches, "_reset", _started_again)
    _wrap(torch.amp.GradScaler, "step", functools.partial(_scaler_step, loop))
    _wrap(torch.amp.GradScaler, "scale", functools.partial(_scaled, loop))
    _wrap(torch.Tensor, "backward", functools.partial(_backward, loop))
    # Of their modules torch.optim and torch.multiprocessing show a class and a function of the same name.
    processes = sys.modules["torch.multiprocessing.spawn"]
    _wrap(processes, "start_processes", _spawn)
    torch.multiprocessing.start_processes = processes.start_processes


def _made(loop: "Loop", original: Callable[..., Any], optimizer: Any, *arguments: Any, **keywords: Any) -> None:
    original(optimizer, *arguments, **keywords)
    loop.optimizers.add(optimizer)


def _opened(loop: "Loop", original: Callable[..., Any], loader: Any) -> Any:
    if not loop.taking:
        loop.open_loader(loader.dataset)
    return original(loader)


def _taken(loop: "Loop", original: Callable[..., Any], batches: Any) -> Any:
    with loop.taking:
        try:
            batch = original(batches)
        except StopIteration:
            loop.exhaust(batches)
            raise
    if not loop.taking:
        loop.take(batches, batch)
    return batch


def _sampled(original: Callable[..., Any], batches: Any) -> Any:
    index = original(batches)
    if isinstance(index, list | tuple):
        batches.__dict__.setdefault(INDICES, deque()).append(len(index))
    return index


def _started_again(original: Callable[..., Any], batches: Any, *arguments: Any, **keywords: Any) -> None:
    batches.__dict__.pop(INDICES, None)
    original(batches, *arguments, **keywords)


def _scaler_step(
    loop: "Loop", original: Callable[..., Any], scaler: Any, optimizer: Any, *arguments: Any, **keywords: Any
) -> Any:
    before = loop.updates
    result = original(scaler, optimizer, *arguments, **keywords)
    if loop.updates == before:
        loop.skip_update(optimizer)
    return result


def _scaled(loop: "Loop", original: Callable[..., Any], scaler: Any, outputs: Any) -> Any:
    if scaler.is_enabled():
        loop.unscaled_loss(outputs)
    return original(scaler, outputs)


def _backward(loop: "Loop", original: Callable[..., Any], tensor: Any, *arguments: Any, **keywords: Any) -> Any:
    loop.loss(tensor)
    return original(tensor, *arguments, **keywords)


def _spawn(
    original: Callable[..., Any], function: Any, args: Any = (), nprocs: int = 1, *rest: Any, **keywords: Any
) -> Any:
    from scalecurve_worker.integrations.instrument.own_ranks import SpawnedRank, start_own_ranks

    if start_own_ranks("torch.multiprocessing", nprocs):
        function = SpawnedRank(function, ended)
    return original(function, args, nprocs, *rest, **keywords)


def _torch_launcher(api: Any) -> None:
    def launch(original: Callable[..., Any], config: Any, *rest: Any, **keywords: Any) -> Any:
        from scalecurve_worker.integrations.instrument.own_ranks import start_own_ranks

        start_own_ranks("torchrun", config.nproc_per_node)
        return original(config, *rest, **keywords)

    _wrap(api, "launch_agent", launch)


def _deepspeed_launcher(runner: Any) -> None:
    def main(original: Callable[..., Any], *arguments: Any) -> Any:
        from scalecurve_worker.integrations.instrument.own_ranks import start_own_ranks

        start_own_ranks("deepspeed", None)
        return original(*arguments)

    _wrap(runner, "main", main)


def _deepspeed_engine(engine: Any) -> None:
    def _measured_model_step(original: Callable[..., Any], model: Any, *arguments: Any, **keywords: Any) -> Any:
        loop, skipped = _loops[0], model.skipped_steps
        loop.begin_update(model)
        result = original(model, *arguments, **keywords)
        loop.end_update(model, alone=True, skipped=model.skipped_steps > skipped)
        return result

    _wrap(engine.DeepSpeedEngine, "_take_model_step", _measured_model_step)


def _accelerate_loaders(loaders: Any) -> None:
    """Rank 0 takes the batches of all ranks and hands them out: what each trains on, its model's inputs tell."""

    def fetch(original: Callable[..., Any], *arguments: Any) -> Any:
        with _loops[0].taking:
            return original(*arguments)

    _wrap(loaders.DataLoaderDispatcher, "_fetch_batches", fetch)


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a function by ``around``, which gets it as its first argument."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        return around(original, *arguments, **keywords)

    setattr(owner, name, wrapped)


_HOOKED: dict[str, Callable[[Any], None]] = {
    "torch": _torch,
    "torch.distributed.launcher.api": _torch_launcher,
    "accelerate.data_loader": _accelerate_loaders,
    "deepspeed.launcher.runner": _deepspeed_launcher,
    "deepspeed.runtime.engine": _deepspeed_engine,
}
