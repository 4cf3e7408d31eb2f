"""Batches for this process's replicas, on their devices."""
