"""The prediction models by name: what ``scalecurve predict MODEL`` can call."""

# model -> (module that holds its ``command``, what it does in a line)
PREDICTORS: dict[str, tuple[str, str]] = {
    "paleo": ("scalecurve_models.cli.predict_paleo", "Layer by layer from FLOPs and bytes (Qi et al., ICLR 2017)."),
    "scaling": ("scalecurve_models.cli.predict_scaling", "Any worker count from a measured bundle, by every model."),
    "collective": (
        "scalecurve_models.cli.predict_collective",
        "All-reduce time by algorithm from latency, bandwidth.",
    ),
    "optimus": (
        "scalecurve_models.cli.predict_optimus",
        "Speed by workers, servers; time to a loss (EuroSys 2018).",
    ),
    "roofline": ("scalecurve_models.cli.predict_roofline", "Lower bound on the time of a piece of work on a device."),
}
