"""Reconciling an experiment: decide, act, probe, report."""
