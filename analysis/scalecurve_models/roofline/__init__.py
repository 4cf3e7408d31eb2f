"""What a device could do, what it does at a batch size, and what energy that takes."""

from scalecurve_models.roofline.bound import Roof, roof_of
from scalecurve_models.roofline.energy import EnergyFit, fit_energy
from scalecurve_models.roofline.utilization import UtilizationFit, fit_utilization

__all__ = ["EnergyFit", "Roof", "UtilizationFit", "fit_energy", "fit_utilization", "roof_of"]
