"""Plots of quantization after training."""
