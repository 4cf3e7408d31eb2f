"""Post-training quantization: B. Jacob et al., "Quantization and training for integer-only inference", CVPR 2018."""

from scalecurve_worker.torch.quantization.folding import check_quantizable, folded
from scalecurve_worker.torch.quantization.judging import Judged, quantize

__all__ = ["Judged", "check_quantizable", "folded", "quantize"]
