"""Devices, links and prices: data files with a date and a source for every figure."""
