"""Fit every model that the measured points of a bundle or a CSV file support."""
