"""Experiments over time: a catalog of bundles, their curves by session, what changed and when, a site, and a gate."""
