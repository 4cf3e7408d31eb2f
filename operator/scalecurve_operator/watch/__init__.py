"""Kopf, its handlers and the initial list: everything that fills the cache."""
