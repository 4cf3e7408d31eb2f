"""Sections and plots that the models add to a report."""
