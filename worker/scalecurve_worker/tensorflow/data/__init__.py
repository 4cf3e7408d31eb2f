"""Batches of this process's replicas, on their devices."""
