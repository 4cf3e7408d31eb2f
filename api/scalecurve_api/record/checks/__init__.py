"""Checks of a finished run, one module for each part of it."""
