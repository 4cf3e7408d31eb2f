"""Pollux: how compute and communication overlap, and how much of the throughput is progress."""
