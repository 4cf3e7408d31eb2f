"""The contract between an engine and the processes it starts: environment variables and file names, and nothing else.

An engine writes ``trial.json`` (a ``TrialSpec``) into a work folder and starts every rank with ``SCALECURVE_TRIAL``
and ``SCALECURVE_OUT`` set. Each rank appends to its journal while it runs and writes its rank record atomically at its
end. A rank that ends before that has failed, whatever its exit code.
"""

TRIAL_ENV = "SCALECURVE_TRIAL"  # path of the trial's JSON, or the JSON itself where it begins with {
OUT_ENV = "SCALECURVE_OUT"  # folder for rank files; on one machine all ranks share it

CORES_ENV = "SCALECURVE_CORES"
"""Cores of every local rank, as ``0,1;2,3``: rank i pins itself to the i-th set before it loads anything heavy."""

THREADS_ENV = "SCALECURVE_THREADS"  # threads a worker computes with: the same for every worker count

DEVICES_ENV = "SCALECURVE_DEVICES"
"""GPU UUIDs of the local ranks, as ``GPU-aaa,GPU-bbb``; unset on CPUs. CUDA_VISIBLE_DEVICES is set likewise."""

ROLE_ENV = "SCALECURVE_ROLE"  # role of a process that is not a worker: chief, or server-0 and so on; unset in workers

METRICS_PORT_ENV = "SCALECURVE_METRICS_PORT"
"""Port of local rank 0's /metrics, further ranks count up; 0 lets the system choose; unset is no /metrics."""

METRICS_ADDRESS_ENV = "SCALECURVE_METRICS_ADDRESS"
"""Address of this machine that /metrics is served at; unset is all of them, as in a pod. ``run`` sets 127.0.0.1."""

METRICS_LINGER_ENV = "SCALECURVE_METRICS_LINGER_SECONDS"
"""How long a process stays up after its last step, so that a last scrape sees it; unset is 0."""

VALUE_PREFIX = "SCALECURVE_"
"""Begins the variables of a custom workload's placeholders, such as SCALECURVE_GLOBAL_BATCH (``spec.placeholders``)."""

WORKING_DIR_ENV = "SCALECURVE_WORKING_DIR"  # folder that a rank's command starts in; unset is the launcher's own

START_ENV = (
    "SCALECURVE_START"  # forked: this rank began as a fork that had its program loaded; unset is a start of its own
)

INSTRUMENT_ENV = "SCALECURVE_INSTRUMENT"  # how a command is timed: auto, sdk or log; unset is sdk

TRIAL_FILE = "trial.json"


def journal_file(rank: int) -> str:
    """Name of a rank's step journal."""
    return f"rank-{rank}.steps"


def trace_file(rank: int) -> str:
    """Name of a rank's trace of a few steps, where it is kept."""
    return f"trace-rank-{rank}.json.gz"


def rank_file(rank: int) -> str:
    """Name of a rank's final record."""
    return f"rank-{rank}.json"


def ready_file(rank: int) -> str:
    """Name of the file a rank writes once its world is joined: its ``RankTopology``."""
    return f"rank-{rank}.ready.json"


def failure_file(rank: int) -> str:
    """Name of the file in which a rank says why it cannot go on: a ``RankFailure``."""
    return f"rank-{rank}.failure.json"


# Between the operator and a pod of a trial, besides the above. TRIAL_ENV then holds the JSON itself, without
# what has its default (``TrialSpec.sent``).

ATTEMPT_ENV = "SCALECURVE_ATTEMPT"  # number of the attempt, from 1

ENGINE_VERSION_ENV = "SCALECURVE_ENGINE_VERSION"
"""Engine version, for the error of a worker that cannot parse its trial."""

PODS_ENV = "SCALECURVE_PODS"
"""How many pods carry workers; each carries workers / pods of them. Its presence means: records go to rank 0's log."""

POD_INDEX_ENV = "SCALECURVE_POD_INDEX"
"""Which of them this is, from 0; where the job kind numbers pods itself, its own variable is read instead."""

COORDINATOR_ENV = "SCALECURVE_COORDINATOR"
"""``host:port`` where the workers meet; where the job kind has a name for it, its own variable is read instead."""

SECRET_ENV = "SCALECURVE_SECRET"
"""What the processes of an attempt share and nobody else has: who cannot show it is no rank. It is in no record."""

HIDDEN_PREFIX = "SCALECURVE_HIDDEN_"
"""Before the names of all keys of a Secret that is taken as a whole, once more: these values are masked in output."""

HOSTFILE_ENV = "SCALECURVE_HOSTFILE"
"""In an MPI launcher: the host file to give mpirun by hand, for Open MPI 5 reads no other."""

HOSTS_ENV = "SCALECURVE_HOSTS"
"""Host name of a pod that carries workers, with ``{}`` for its index, where the job kind gives no host file."""

POD_ROLE_ENV = "SCALECURVE_POD_ROLE"
"""``launcher``, ``chief`` or ``ps``: what a pod without workers does, where the job kind has no word for it."""

BUDGET_ENV = "SCALECURVE_RECORD_BYTES"
"""The most bytes of a record's payload that may go through a log; what does not fit is dropped and named."""

RESULTS_ENV = "SCALECURVE_RESULTS"
"""Folder of the claim that takes everything, in a folder for each attempt; unset where there is none."""

TERMINATION_ENV = "SCALECURVE_TERMINATION_LOG"  # file for the termination message; unset is /dev/termination-log

POD_NAME_ENV = "POD_NAME"
NODE_NAME_ENV = "NODE_NAME"

_PLACES = frozenset(
    {
        *(POD_NAME_ENV, NODE_NAME_ENV, "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG"),
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
        *("JOB_COMPLETION_INDEX", "K_MPI_JOB_ROLE"),
    }
)
_PLACES_PREFIXES = ("SCALECURVE_", "PET_", "TORCHELASTIC_", "OMPI_COMM_WORLD_", "PMIX_")


def places(name: str) -> bool:
    """Whether a variable says which process is which rank and where it meets others: no user's to set for all."""
    return name in _PLACES or name.startswith(_PLACES_PREFIXES)
