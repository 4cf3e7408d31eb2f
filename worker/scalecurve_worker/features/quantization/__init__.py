"""Post-training quantization: B. Jacob et al., "Quantization and training for integer-only inference", CVPR 2018."""
