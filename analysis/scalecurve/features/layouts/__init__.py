"""Layouts of a model over workers: the best of each count."""
