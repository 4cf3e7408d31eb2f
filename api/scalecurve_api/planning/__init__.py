"""Experiment -> ordered trials."""
