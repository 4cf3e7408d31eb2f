"""The bench that times the steps of a training loop."""
