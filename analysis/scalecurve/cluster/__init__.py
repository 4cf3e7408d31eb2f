"""Experiments in a cluster, read through the user's kubeconfig: progress, records, capacity, health."""
