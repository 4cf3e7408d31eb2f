"""The PyTorch side of the worker; nothing outside this package imports torch."""
