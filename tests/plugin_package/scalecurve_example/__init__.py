"""A program, a model and a plot that ScaleCurve finds by entry points."""
