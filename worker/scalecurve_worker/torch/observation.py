"""What a torch program of anyone's is observed at: its collectives, what its model reads, and its gradients.

Collectives are seen where torch dispatches them, in a few steps before the warm-up; those in a CUDA graph only by
torch's profiler. No hook and no mode is left when a timed window begins.
"""

import functools
import hashlib
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

from scalecurve_api.record.checks.proof import LEAST_BITS, least_bytes
from scalecurve_api.record.proof import CommunicationSeen, Proof, TrainingSeen
from scalecurve_api.record.rank import Traffic
from scalecurve_worker.sdk.batches import LoaderTime
from scalecurve_worker.sdk.observation import Observer, SampleDigest, tensor_bytes
from scalecurve_worker.torch.collective_calls import UNDISPATCHED, CollectiveCall, CollectiveCalls
from scalecurve_worker.torch.device import data_parallel_of
from scalecurve_worker.torch.exchanges import Exchanges, collectives
from scalecurve_worker.torch.profiler_session import ProfilerSession
from scalecurve_worker.torch.traffic import observed

_KERNEL, _KERNELS = "ncclDevKernel_", "kernels of NCCL"
# With one of these a program may communicate where nothing here sees it.
_UNSEEN = {"mpi4py", "jax", "tensorflow", "cupy", "zmq", "ray"}
_SAMPLE = 1 << 16


class TorchObserver(Observer):
    """Of a program that has loaded torch; ``model`` is what it passed to ``attach``, or None."""

    def __init__(self, model: Any, device: torch.device, initial_checksum: str | None = None) -> None:
        self._model = model if isinstance(model, nn.Module) else None
        super().__init__(initial_checksum or parameter_sample(self._model))
        self._device = device
        self._phases: list[_Traffic] = []
        self._problem = False
        # To meet, ranks under mpirun load mpi4py in attach(): that is not the program's.
        self._ours = {"mpi4py"} - sys.modules.keys()
        self._inputs = SampleDigest("inputs of the model")
        self._updates: Counter[Optimizer] = Counter()
        self._gradient = False
        self._elements: dict[int, int] = {}
        self._profiler: ProfilerSession | None = None
        self._undo: list[Callable[[], None]] = []
        self._before: int | None = None
        self._timed: int | None = 0
        self._at: int | None = None
        self._least: int | None = None
        self._exchanges = Exchanges()
        self._replicas: list[str] = []

    def model(self, model: Any) -> None:
        """Watch this model: what was read before is of the batches alone; parameters are compared with those of now."""
        if isinstance(model, nn.Module) and model is not self._model:
            self._model = model
            self._initial = self._initial or parameter_sample(model)

    @property
    def updates(self) -> Mapping[Optimizer, int]:
        """Optimizers that were seen to update, with how often; in ``steps`` observed steps."""
        return self._updates

    @property
    def steps(self) -> int:
        return sum(phase.steps for phase in self._phases)

    @property
    def reads(self) -> bool:
        """Whether the model was called in the observed steps."""
        return bool(self._inputs.samples)

    def traffic(self, workers: int, elements: int) -> Traffic | None:
        """Return what a step sends, for a model with so many elements to train; None where nothing was seen."""
        phase = self._phases[0] if self._phases else None
        if phase is None or not phase.bytes:
            return None
        return observed({kind: size / phase.steps for kind, size in phase.sizes.items()}, elements, workers)

    @property
    def complete(self) -> bool:
        """Whether gradients were seen on their way; a program that averages now and then needs more steps."""
        if self._problem or not self._phases or self._replicas:
            return self._problem or bool(self._replicas)
        phase = self._phases[-1]
        least = self._least_bytes(phase)
        if least is None:
            elements = sum(parameter.numel() for parameter in self._model.parameters()) if self._model else 0
            least = round(least_bytes(elements) * phase.steps)
        return bool(phase.kinds) and (phase.bytes >= least or _KERNELS in phase.kinds)

    def window_opens(self) -> None:
        self._exchanges.end()
        self._before = collectives()

    def window_closed(self) -> None:
        now, before = collectives(), self._before
        if self._timed is not None:
            self._timed = None if now is None or before is None else self._timed + now - before

    def begin(self, steps: int, anew: bool) -> None:
        """Watch collectives, inputs of the model and optimizer steps."""
        super().begin(steps, anew)
        # Collectives in a CUDA graph are only kernels; loading what sees those takes seconds, and it stays loaded.
        kernels = self._device.type == "cuda" and not (anew or self.complete)
        self._at = None
        if anew:
            self._phases.append(_Traffic())
            self._exchanges.begin(lambda: parameter_sample(self._model))
        self._phases[-1].steps += steps
        if self._model is not None:
            handle = self._model.register_forward_pre_hook(self._forward, with_kwargs=True)
            self._undo.append(handle.remove)
        if (parallel := data_parallel_of(self._model)) is not None:
            # Replicas have the hooks of the module that they are copies of.
            self._undo.append(parallel.module.register_forward_pre_hook(self._replica, with_kwargs=True).remove)
        self._undo.append(register_optimizer_step_pre_hook(self._update).remove)
        self._undo += [watch(self._count_call) for watch in UNDISPATCHED.loadable().values()]
        if kernels:
            self._profiler = ProfilerSession()
            self._profiler.begin(use_device="cuda")
        calls = ExitStack()
        calls.enter_context(CollectiveCalls(self._count_call))
        self._undo.append(calls.close)

    def end(self) -> None:
        super().end()
        while self._undo:
            self._undo.pop()()
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            events = profiler.end()
            self._problem = self._problem or events is None
            kernels = sum(event.name().startswith(_KERNEL) for event in events or ())
            self._phases[-1].kinds.update({_KERNELS: kernels} if kernels else {})

    def proof(self, final_checksum: str | None, declared_same: bool) -> Proof:
        """Return what was seen; communication is left open where some could have gone unseen."""
        proof = super().proof(final_checksum, declared_same)
        self._exchanges.end()
        training = None
        if self._initial is not None:
            training = TrainingSeen(
                initial=self._initial,
                final=parameter_sample(self._model) or final_checksum,
                gradient_norm_nonzero=self._gradient if self._updates else None,
                steps=self._updates.total(),
                met=self._exchanges.met,
                method="parameters and optimizer steps of torch",
            )
        inputs = self._inputs.seen(declared_same)
        return Proof(communication=self._communication(), data=inputs or proof.data, training=training)

    def _communication(self) -> CommunicationSeen | None:
        if not self._phases:
            return None
        if (parallel := data_parallel_of(self._model)) is not None and len(parallel.device_ids) > 1:
            return self._replica_copies(parallel)
        # What a program does while it is watched at first it must still do at the end.
        least = min(self._phases, key=lambda phase: (phase.kinds.total() > 0, phase.bytes / phase.steps))
        if not least.kinds and (self._problem or _may_be_unseen(self._ours)):
            return None
        return CommunicationSeen(
            calls=least.kinds.total(),
            bytes=least.bytes,
            steps=least.steps,
            kinds=sorted(least.kinds),
            method="calls of torch.distributed",
            # Messages, sums of other libraries and those in a CUDA graph are not counted by a process group.
            timed_calls=self._timed if all(map(_is_counted, least.kinds)) else None,
            # Without an update at every step, one step may exchange what several computed.
            least_bytes=self._least_bytes(least),
            least_calls=self._least if next(iter(self._updates.values()), 0) >= self.steps else None,
            period=self._exchanges.period,
            silent_steps=self._exchanges.silent_steps,
        )

    def _replica_copies(self, parallel: nn.DataParallel[nn.Module]) -> CommunicationSeen:
        """Passes of the replica that had fewest, none where a device had none: each begins with a copy of the model."""
        passes = Counter(self._replicas)
        calls = min(passes.values()) if len(passes) >= len(parallel.device_ids) else 0
        size = sum(each.nbytes for each in parallel.module.parameters())
        seen = {"calls": calls, "bytes": calls * size, "steps": self.steps, "kinds": ["replicate"]}
        return CommunicationSeen.model_validate({**seen, "method": "passes of nn.DataParallel's replicas"})

    def _replica(self, _: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        tensors = [each for each in (*arguments, *keywords.values()) if isinstance(each, Tensor)]
        self._replicas.extend(str(first.device) for first in tensors[:1])

    def _least_bytes(self, phase: "_Traffic") -> int | None:
        """What gradients take on their way in this phase; None where no update was seen, or other things are exchanged.

        Stages of a pipeline send activations, and experts are sent samples, in place of their gradients.
        """
        elements = sum(self._elements.values())
        if not elements or not phase.updates or any(map(_exchanges_other, phase.kinds)):
            return None
        # DistributedDataParallel lists the hooks that it was handed; only those may send less than a bit.
        modules = self._model.modules() if self._model is not None else ()
        hooked = any(getattr(module, "_comm_hooks", None) for module in modules)
        return round(phase.updates * (least_bytes(elements) if hooked else elements * LEAST_BITS / 8))

    def _count_call(self, call: CollectiveCall) -> None:
        self._phases[-1].kinds[call.kind] += 1
        self._phases[-1].sizes[call.kind] += call.bytes

    def _forward(self, _: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self._inputs.add((arguments, keywords))

    def _update(self, optimizer: Optimizer, *_: Any) -> None:
        self._updates[optimizer] += 1
        if optimizer is next(iter(self._updates)):
            self._count_step()
            self._phases[-1].updates += 1
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._elements.update((id(p), _gradient_elements(p)) for p in parameters if p.requires_grad)
        if self._gradient:
            return
        self._gradient = any(
            p.grad is not None and bool(torch.count_nonzero(_local_values(p.grad))) for p in parameters
        )

    def _count_step(self) -> None:
        """From one update of the first optimizer to its next."""
        before, self._at = self._at, collectives()
        if before is not None and self._at is not None:
            calls = self._at - before
            self._least = calls if self._least is None else min(self._least, calls)


@dataclass
class _Traffic:
    """What was exchanged in observed steps that follow each other."""

    kinds: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    updates: int = 0

    @property
    def bytes(self) -> int:
        return self.sizes.total()


def _is_counted(kind: str) -> bool:
    return kind != _KERNELS and kind.partition(":")[0] not in UNDISPATCHED and not _is_message(kind)


def _exchanges_other(kind: str) -> bool:
    return kind == _KERNELS or _is_message(kind) or "all_to_all" in kind


def _is_message(kind: str) -> bool:
    return "send" in kind or "recv" in kind or "p2p" in kind


def watch_loaders(loading: LoaderTime) -> LoaderTime:
    """Count the time in ``next()`` of every DataLoader, also those of loops that do not use ``bench.steps``."""
    loop = threading.get_ident()
    original = getattr(_BaseDataLoaderIter.__next__, "scalecurve_original", _BaseDataLoaderIter.__next__)

    @functools.wraps(original)
    def load_next(self: Any) -> Any:
        if threading.get_ident() != loop:
            return original(self)  # it prefetches
        with loading:
            return original(self)

    load_next.__dict__["scalecurve_original"] = original
    setattr(_BaseDataLoaderIter, "__next__", load_next)  # noqa: B010  # mypy refuses to assign a method
    return loading


def parameter_sample(model: nn.Module | None) -> str | None:
    """Compute a digest of elements of every parameter, equally far apart.

    It is cheap, and another one after a step of training. Where ranks hold shares, it is of the share that this rank
    holds. None without parameters held here.
    """
    digest, elements = hashlib.blake2b(digest_size=16), 0
    for parameter in model.parameters() if model is not None else ():
        flat = _local(parameter).detach().reshape(-1)
        elements += flat.numel()
        digest.update(tensor_bytes(flat[:: max(1, flat.numel() // _SAMPLE)]))
    return digest.hexdigest() if elements else None


def _local(tensor: Tensor) -> Tensor:
    """What this rank holds of it: of a DTensor, or of a parameter that DeepSpeed's ZeRO-3 leaves empty."""
    to_local = getattr(tensor, "to_local", None)
    shard: Tensor | None = getattr(tensor, "ds_tensor", None)
    if to_local is not None:
        held: Tensor = to_local()
        return held
    return tensor if shard is None else shard


def _gradient_elements(parameter: Tensor) -> int:
    """Elements that this rank has of a gradient; of a sparse one, those that are stored."""
    gradient = parameter.grad
    return _local_values(gradient if gradient is not None and gradient.is_sparse else parameter).numel()


def _local_values(tensor: Tensor) -> Tensor:
    """What is stored here of a sparse tensor, or of one whose ranks hold shares."""
    return tensor.detach().coalesce().values() if tensor.is_sparse else _local(tensor)


def _may_be_unseen(ours: set[str]) -> bool:
    rpc = sys.modules.get("torch.distributed.rpc")
    rpc_in_use = rpc is not None and getattr(rpc, "_is_current_rpc_agent_set", lambda: False)()
    return bool(rpc_in_use) or any(name in sys.modules for name in _UNSEEN - ours)
