"""Predictions for worker counts that were not run, by several models, each with its error."""
