"""Training to an accuracy: evaluations between epochs."""
