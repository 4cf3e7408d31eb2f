"""Gradient compression under DDP, as communication hooks."""
