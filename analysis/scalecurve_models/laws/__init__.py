"""Scaling laws: Amdahl, Gustafson, the universal scalability law and the ring form, judged by what they did not see."""

from scalecurve_models.laws.cross_validation import (
    HeldOut,
    Judged,
    LawComparison,
    compare_laws,
    leave_one_out,
)
from scalecurve_models.laws.forms import NAMES, Form, form_of, forms
from scalecurve_models.laws.law_fit import LawFit, fit_law

__all__ = [
    "NAMES",
    "Form",
    "HeldOut",
    "Judged",
    "LawComparison",
    "LawFit",
    "compare_laws",
    "fit_law",
    "form_of",
    "forms",
    "leave_one_out",
]
