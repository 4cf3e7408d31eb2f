"""Optimus (Peng et al., EuroSys 2018): loss curves, training speed, and the time to a loss or an accuracy."""
