"""Scaling curves: results, headlines, tables, cost, all-reduce bandwidth and link traffic."""
