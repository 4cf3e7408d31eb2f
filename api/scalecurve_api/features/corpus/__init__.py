"""Manifest of the feature corpus."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "corpus",
    "Set published results beside one's own.",
    {
        "scalecurve.commands": {"corpus": "scalecurve.cli.corpus_verbs:VERBS"},
        "scalecurve.published": {"corpus": "scalecurve.cli.corpus:compare_with"},
        "scalecurve.expectations": {"corpus": "scalecurve_timelines.published_checks:checks_of"},
        "scalecurve.repetition_noise": {"corpus": "scalecurve_corpus.repetition_noise:shipped_noise"},
        "scalecurve.sections": {"corpus": "scalecurve.reporting.among_published"},
        "scalecurve.plots": {"corpus": "scalecurve.reporting.plots.among_published"},
    },
)
