"""Optimus (Peng et al., EuroSys 2018): loss curves, training speed, and the time to a loss or an accuracy."""

from scalecurve_models.optimus.accuracy import (
    TimeToTarget,
    best_workers,
    fit_accuracy,
    steps_to_accuracy,
    time_to_target,
)
from scalecurve_models.optimus.depth import DepthRegression, LeftOutDepth, LossRun, leave_out_depth, regress
from scalecurve_models.optimus.loss import LossFit, Reach, fit_loss
from scalecurve_models.optimus.online import LossTracker, Refit, refits
from scalecurve_models.optimus.speed import SpeedFit, fit_speed, speed

__all__ = [
    "DepthRegression",
    "LeftOutDepth",
    "LossFit",
    "LossRun",
    "LossTracker",
    "Reach",
    "Refit",
    "SpeedFit",
    "TimeToTarget",
    "best_workers",
    "fit_accuracy",
    "fit_loss",
    "fit_speed",
    "leave_out_depth",
    "refits",
    "regress",
    "speed",
    "steps_to_accuracy",
    "time_to_target",
]
