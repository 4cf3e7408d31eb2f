"""Manifest of the feature corpus."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "corpus",
    "Set published results beside one's own.",
    {
        "scalecurve.commands": {"corpus": "scalecurve_corpus.cli:VERBS"},
        "scalecurve.published": {"corpus": "scalecurve_corpus.cli.corpus:compare_with"},
        "scalecurve.expectations": {"corpus": "scalecurve_timelines.published_checks:checks_of"},
        "scalecurve.repetition_noise": {"corpus": "scalecurve_corpus.repetition_noise:shipped_noise"},
        "scalecurve.sections": {"corpus": "scalecurve_corpus.report.sections"},
        "scalecurve.plots": {"corpus": "scalecurve_corpus.report.plots"},
    },
)
