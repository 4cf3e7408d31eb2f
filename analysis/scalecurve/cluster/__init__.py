"""Verbs on experiments in a cluster: through the user's own kubeconfig, reading what the operator keeps there."""
