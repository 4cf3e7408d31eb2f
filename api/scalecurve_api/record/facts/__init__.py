"""Kinds of facts that some programs measure: each with its model, bounds and checks."""
