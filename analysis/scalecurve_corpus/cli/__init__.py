"""The verb of the corpus (entry point ``scalecurve.commands``)."""

from scalecurve.cli.verbs import Verb

VERBS = {
    "corpus": Verb(
        "scalecurve_corpus.cli.corpus", "Show published results to compare with, and make a corpus.", after="compare"
    )
}
