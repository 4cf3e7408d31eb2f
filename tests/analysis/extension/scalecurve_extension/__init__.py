"""A package of a user's own: one verb, one section and one plot, found by entry points."""

from scalecurve.cli.verbs import Verb

VERBS = {"weather": Verb("scalecurve_extension.weather", "Show the weather.")}
