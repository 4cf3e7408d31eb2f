"""Predicted against measured: every model on every measured curve."""
