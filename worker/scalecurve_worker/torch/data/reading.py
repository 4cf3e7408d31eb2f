"""Processes that read ahead of a worker, and do not take the interpreter from the thread that launches its kernels.

They come from a fork server: a fork of a process with CUDA and NCCL threads may hang.
"""

import os
from multiprocessing import parent_process
from threading import Thread
from typing import Any

from torch import multiprocessing as torch_multiprocessing

BATCHES_AHEAD = 2  # of each process


def loader_options(count: int) -> dict[str, Any]:
    """Return the options of torch's loader; none of them where the worker itself reads."""
    if count == 0:
        return {}
    context = torch_multiprocessing.get_context("forkserver")
    # Imports torch once, not in every process.
    context.set_forkserver_preload([__name__.replace("reading", name) for name in ("image_folder", "packed_tokens")])
    return {
        "num_workers": count,
        "multiprocessing_context": context,
        "worker_init_fn": _end_with_the_worker,
        "prefetch_factor": BATCHES_AHEAD,
        "persistent_workers": True,
    }


def _end_with_the_worker(_: int) -> None:
    """Let a reading process end when its worker is gone, even killed.

    torch watches the parent process, which is the fork server here; and the server lives as long as its children.
    """
    worker = parent_process()
    assert worker is not None

    def watch() -> None:
        worker.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()
