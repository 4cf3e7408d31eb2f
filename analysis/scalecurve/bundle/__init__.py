"""Bundles: the folder of an experiment's records, opened, checked and reduced to what statistics work on."""
