"""A program, a model, a plot, a format, a check and a job kind that ScaleCurve finds by entry points."""
