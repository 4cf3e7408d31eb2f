"""Between an engine and the processes it starts: environment variables and file names. Nothing else passes.

An engine writes ``trial.json`` (a ``TrialSpec``) into a work folder and starts every rank with ``SCALEBENCH_TRIAL``
and ``SCALEBENCH_OUT`` set. Each rank appends to its journal while it runs and writes its rank record, whole, at its
end. A rank that stops before that has failed, whatever its exit code.
"""

from __future__ import annotations

TRIAL_ENV = "SCALEBENCH_TRIAL"
"""Path of the trial's JSON, or the JSON itself where it begins with ``{``."""

OUT_ENV = "SCALEBENCH_OUT"
"""Folder for rank files; on one machine all ranks share it."""

CORES_ENV = "SCALEBENCH_CORES"
"""Cores of every local rank, as ``0,1;2,3``: rank i pins itself to the i-th set before it loads anything heavy."""

THREADS_ENV = "SCALEBENCH_THREADS"
"""Threads a worker computes with: the same for every worker count."""

DEVICES_ENV = "SCALEBENCH_DEVICES"
"""GPU UUIDs of the local ranks, as ``GPU-aaa,GPU-bbb``; unset on CPUs. CUDA_VISIBLE_DEVICES is set likewise."""

METRICS_PORT_ENV = "SCALEBENCH_METRICS_PORT"
"""Port of local rank 0's /metrics, further ranks count up; 0 lets the system choose; unset is no /metrics."""

METRICS_LINGER_ENV = "SCALEBENCH_METRICS_LINGER_SECONDS"
"""How long a process stays up after its last step, so that a last scrape sees it; unset is 0."""

TRIAL_FILE = "trial.json"
EVALUATIONS_FILE = "evals.jsonl"


def journal_file(rank: int) -> str:
    """Name of a rank's step journal."""
    return f"rank-{rank}.steps"


def rank_file(rank: int) -> str:
    """Name of a rank's final record."""
    return f"rank-{rank}.json"


def ready_file(rank: int) -> str:
    """Name of the file a rank writes once its world is joined: its ``RankTopology``."""
    return f"rank-{rank}.ready.json"


def failure_file(rank: int) -> str:
    """Name of the file in which a rank says why it cannot go on: a ``RankFailure``."""
    return f"rank-{rank}.failure.json"
