"""The statistics of ScaleCurve: intervals, comparisons and detectors. Pure functions, numbers in, dataclasses out."""
