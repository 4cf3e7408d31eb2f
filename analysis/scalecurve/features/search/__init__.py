"""Searches by successive halving."""
