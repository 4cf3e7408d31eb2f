"""The verbs of ``scalecurve``: the core's, and those of installed packages.

A package adds verbs by an entry point in the group ``scalecurve.commands``: a ``dict[str, Verb]``. The module that
holds the table must be cheap to import; the modules that it names are imported when their verb is called.
"""

from functools import lru_cache
from importlib.metadata import entry_points
from typing import NamedTuple

from scalecurve.cli.output import complain

GROUP = "scalecurve.commands"


class Verb(NamedTuple):
    """``module`` holds the click command under the name ``command``; ``help`` is its line in ``scalecurve --help``."""

    module: str
    help: str


CORE = {
    "validate": Verb("scalecurve.cli.validate", "Check experiment files, with a line for every error."),
    "plan": Verb("scalecurve.cli.plan", "Show the trials of an experiment, with time and cost."),
    "run": Verb("scalecurve.cli.run", "Run an experiment on this machine's GPUs or CPUs."),
    "quickstart": Verb("scalecurve.cli.quickstart", "Run a first experiment on this machine and report on it."),
    "status": Verb("scalecurve.cli.status", "Show the progress of a bundle or a cluster experiment."),
    "watch": Verb("scalecurve.cli.watch", "Follow an experiment in a cluster until it ends."),
    "pull": Verb("scalecurve.cli.pull", "Fetch the records of a cluster experiment into a bundle."),
    "pack": Verb("scalecurve.cli.pack", "Pack a bundle into one file that every verb opens."),
    "unpack": Verb("scalecurve.cli.unpack", "Unpack a packed bundle into a folder."),
    "report": Verb("scalecurve.cli.report", "Write a report: HTML, Markdown, JSON, CSV, plots."),
    "compare": Verb("scalecurve.cli.compare", "Show which points changed between two bundles."),
    "diagnose": Verb("scalecurve.cli.diagnose", "Find stragglers, drift, bimodal steps and short warm-ups."),
    "allreduce": Verb("scalecurve.cli.allreduce", "Show the all-reduce benchmark: latency, algbw, busbw."),
    "training": Verb("scalecurve.cli.training", "Show accuracy, time to target, noise scale, quantization."),
    "cost": Verb("scalecurve.cli.cost", "Show time and cost per point, the cheapest and the fastest."),
    "doctor": Verb("scalecurve.cli.doctor", "Check this machine or a cluster, and an experiment on it."),
}


@lru_cache(maxsize=1)
def verbs() -> dict[str, Verb]:
    """All verbs in the order of the help; no package replaces a verb of the core."""
    added: dict[str, Verb] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            added |= entry.load()
        except (ImportError, AttributeError) as error:
            complain(f"the verbs of {entry.value} cannot be loaded: {error}")
    return CORE | {name: verb for name, verb in added.items() if name not in CORE}
