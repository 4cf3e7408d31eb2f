"""The gradient noise scale, measured while training."""
