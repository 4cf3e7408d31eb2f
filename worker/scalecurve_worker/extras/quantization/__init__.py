"""Post-training quantization: B. Jacob et al., "Quantization and training for integer-only inference", CVPR 2018."""

from scalecurve_worker.extras.quantization.evaluation import ValidationResult, quantize
from scalecurve_worker.extras.quantization.folding import check_quantizable, folded

__all__ = ["ValidationResult", "check_quantizable", "folded", "quantize"]
