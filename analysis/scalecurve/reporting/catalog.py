"""Every section and plot of a report: the core's, and those of installed packages.

The modules of plots are imported when something is drawn, for they import matplotlib.
"""

import importlib
import pkgutil
from types import ModuleType

from scalecurve.reporting import sections as _core  # noqa: F401  # it registers the core's sections
from scalecurve.reporting.registry import PLOTS, SECTIONS, PlotSource, SectionSource
from scalecurve_api.registry import Registry
from scalecurve_api.text import did_you_mean

MODULES_OF_SECTIONS: Registry[ModuleType] = Registry("scalecurve.sections", "module of sections", ModuleType, {})
MODULES_OF_PLOTS: Registry[ModuleType] = Registry("scalecurve.plots", "module of plots", ModuleType, {})


def all_sections() -> list[SectionSource]:
    """Every section in order."""
    MODULES_OF_SECTIONS.all()
    return sorted(SECTIONS.values(), key=lambda source: (source.order, source.name))


def all_plots() -> list[PlotSource]:
    """Every plot in order; raises ValueError for a plot of a section that does not exist."""
    names = [source.name for source in all_sections()]
    package = importlib.import_module("scalecurve.reporting.plots")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    MODULES_OF_PLOTS.all()
    for source in PLOTS.values():
        if source.section not in names:
            near = did_you_mean(source.section, names)
            hint = f"; did you mean {near!r}?" if near else ""
            raise ValueError(
                f"plot {source.name!r}: no section {source.section!r}{hint} (sections: {', '.join(names)})"
            )
    return sorted(PLOTS.values(), key=lambda source: (source.order, source.name))
