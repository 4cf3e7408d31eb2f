"""Shared by the tests of paleo_calibration."""

from scalecurve.hardware.devices import find_device, find_link
from scalecurve_models.paleo.scaling import Platform

ON = Platform(find_device("K80"), find_link("ethernet20"))
