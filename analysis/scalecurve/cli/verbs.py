"""The verbs of ``scalecurve``: the core's, and those of installed packages.

A package adds verbs by an entry point in the group ``scalecurve.commands``: a ``dict[str, Verb]``. The module that
holds the table must be cheap to import; the modules that it names are imported when their verb is called. ScaleCurve's
own features register theirs so, too.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import click

from scalecurve.cli.output import complain
from scalecurve_api.registry import Registry, RegistryError, load

ADDED: Registry[dict[str, Any]] = Registry("scalecurve.commands", "table of verbs", dict, {})


class Verb(NamedTuple):
    """Where a click command is (``module:name``, or a module's ``command``); its line in ``scalecurve --help``.

    There it follows the verb of the core that ``after`` names, or comes last.
    """

    place: str
    help: str
    after: str = ""

    def command(self) -> click.Command:
        command = load(self.place if ":" in self.place else f"{self.place}:command")
        assert isinstance(command, click.Command)
        return command


CORE = {
    "validate": Verb("scalecurve.cli.validate", "Check experiment files, with a line for every error."),
    "plan": Verb("scalecurve.cli.plan", "Show the trials of an experiment, with time and cost."),
    "experiment": Verb("scalecurve.cli.experiment", "Make an experiment of a job's manifest, such as an MPIJob."),
    "run": Verb("scalecurve.cli.run", "Run an experiment on this machine's GPUs or CPUs."),
    "demo": Verb("scalecurve.cli.demo", "Show a measurement on H200 GPUs and its report, in seconds."),
    "quickstart": Verb("scalecurve.cli.quickstart", "Run a first experiment on this machine and report on it."),
    "status": Verb("scalecurve.cli.status", "Show the progress of a bundle or a cluster experiment."),
    "watch": Verb("scalecurve.cli.watch", "Follow an experiment in a cluster until it ends."),
    "pull": Verb("scalecurve.cli.pull", "Fetch the records of a cluster experiment into a bundle."),
    "pack": Verb("scalecurve.cli.pack:pack", "Pack a bundle into one file that every verb opens."),
    "unpack": Verb("scalecurve.cli.pack:unpack", "Unpack a packed bundle into a folder."),
    "verify": Verb("scalecurve.cli.verify", "Check that a bundle is as it was written, and who signed it."),
    "report": Verb("scalecurve.cli.report", "Write a report: HTML, Markdown, JSON, CSV, plots."),
    "compare": Verb("scalecurve.cli.analyses:compare", "Compare two bundles, or one with published results."),
    "explain": Verb("scalecurve.cli.explain", "Break lost efficiency down into its causes."),
    "diagnose": Verb("scalecurve.cli.analyses:diagnose", "Find stragglers, drift, bimodal steps and short warm-ups."),
    "cost": Verb("scalecurve.cli.analyses:cost", "Show time and cost per point, the cheapest and the fastest."),
    "doctor": Verb("scalecurve.cli.doctor", "Check this machine or a cluster, and an experiment on it."),
    "probe": Verb("scalecurve.cli.probe", "Find slow nodes and links of a cluster by running groups of nodes."),
}


@lru_cache(maxsize=1)
def verbs() -> dict[str, Verb]:
    """All verbs in the order of the help; no package replaces a verb of the core."""
    added: dict[str, Verb] = {}
    for name in ADDED.names():
        try:
            added |= ADDED.get(name)
        except RegistryError as error:
            complain(str(error))
    added = {name: verb for name, verb in added.items() if name not in CORE}
    ordered: dict[str, Verb] = {}
    for name, verb in CORE.items():
        ordered |= {name: verb} | {other: follower for other, follower in added.items() if follower.after == name}
    return ordered | added
