"""How a bundle's runs learn: fitted loss curves, steps and time to a target."""
