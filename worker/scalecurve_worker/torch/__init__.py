"""The PyTorch side of the worker; imported only when torch is."""
