"""The verbs of timelines: history and gate (entry point ``scalecurve.commands``)."""

from scalecurve.cli.verbs import Verb

VERBS = {
    "history": Verb(
        "scalecurve_timelines.cli.history",
        "Show experiments over time: what changed, when, and by how much.",
        after="compare",
    ),
    "gate": Verb(
        "scalecurve_timelines.cli.gate",
        "Pass or fail a bundle: against a baseline, its history, or expected values.",
        after="compare",
    ),
}
