"""Bind every measured number and picture on the pages to what it came from, and compute them again."""
