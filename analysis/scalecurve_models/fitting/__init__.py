"""Least-squares fitting, and the observations that models are fitted to."""
