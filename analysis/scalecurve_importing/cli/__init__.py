"""The verb of importing (entry point ``scalecurve.commands``)."""

from scalecurve.cli.verbs import Verb

VERBS = {
    "import": Verb(
        "scalecurve_importing.cli.imported", "Make a bundle of numbers that were measured elsewhere.", after="pull"
    )
}
