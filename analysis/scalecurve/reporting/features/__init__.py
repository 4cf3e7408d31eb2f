"""What features of ScaleCurve add to a report: a module for each, found as plots are, which registers its sections."""
