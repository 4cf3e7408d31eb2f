"""What ScaleCurve finds by entry points: a program, a model, a plot, a format, checks, a job kind and a predictor."""
