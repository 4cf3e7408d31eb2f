"""What plots share: figures, axes, scales and ideal lines."""
