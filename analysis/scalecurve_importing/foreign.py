"""Files that are not imported, named for what they are, with the next step."""

import re
from dataclasses import dataclass

_TABLE = "make a CSV file of it, a row for each run, such as: gpus,samples/s"


@dataclass(frozen=True)
class _Kind:
    sign: re.Pattern[str]
    what: str
    then: str


_KINDS = (
    _Kind(
        re.compile(r'\A\s*\{(?=[^\n]{0,400}"resultType")|\A\s*\{\s*"status"\s*:\s*"(?:success|error)"\s*,\s*"data"'),
        "an answer of Prometheus",
        f"ask it for one number a run, such as sum(avg_over_time(NAME[10m])) over steady steps, and {_TABLE}",
    ),
    _Kind(
        re.compile(r'\A\s*[\[{](?s:.{0,20000}?)(?:"traceEvents"|"distributedInfo"|"ph"\s*:\s*"[A-Z]")'),
        "a trace (Chrome's or Kineto's format)",
        f"`scalecurve explain FILE` says what its steps are made of; to import it, take their times, and {_TABLE}",
    ),
    _Kind(
        re.compile(r"^kind:\s*[\"']?(?:MPIJob|PyTorchJob|TrainJob|JobSet|Job)\b", re.MULTILINE),
        "a manifest for Kubernetes, and no result",
        "import what the job printed (kubectl logs JOB > out.txt), or measure it: scalecurve experiment from FILE",
    ),
    _Kind(
        re.compile(r"^kind:\s*[\"']?(?:TFJob|Pod|RayJob)\b", re.MULTILINE),
        "a manifest for Kubernetes, and no result",
        "import what the job printed: kubectl logs JOB > out.txt",
    ),
    _Kind(
        re.compile(r"^kind:\s*ScalingExperiment\b", re.MULTILINE),
        "an experiment, and no result",
        "run it: scalecurve run FILE",
    ),
    _Kind(re.compile(r"\A(?:PK\x03\x04|\x1f)"), "a packed file", "unpack it, or save a spreadsheet as CSV"),
    _Kind(re.compile(r"\A\s*\Z"), "empty", "import what the program printed"),
)


def named(head: str) -> str:
    """Describe what a file's beginning shows it to be and what to do with it; empty for a text of no known kind."""
    return next((f"is {kind.what}: {kind.then}" for kind in _KINDS if kind.sign.search(head)), "")


def is_json(head: str) -> bool:
    """Return whether a text begins as a JSON object or list of objects: a log's line may begin with a bracket, too."""
    return re.match(r'\s*(?:\{\s*["}]|\[\s*[{\]])', head) is not None
