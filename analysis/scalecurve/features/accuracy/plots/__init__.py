"""Plots of training to an accuracy."""
