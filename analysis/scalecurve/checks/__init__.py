"""Checks: experiment files, comparability of points, changes between bundles, stragglers and drift."""
