"""Sections and plots of published results."""
