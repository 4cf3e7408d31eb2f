"""Command-line verbs of the models: network, predict, fit and recommend."""
