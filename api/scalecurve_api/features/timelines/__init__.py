"""Manifest of the feature timelines."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "timelines",
    "Follow a result over sessions, and gate a change on it.",
    {
        "scalecurve.commands": {"timelines": "scalecurve_timelines.cli:VERBS"},
    },
)
