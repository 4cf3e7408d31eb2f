"""Optimus (Peng et al., EuroSys 2018): loss curves, training speed, and the time to a loss or an accuracy."""

from scalebench.predict.optimus.accuracy import (
    TimeToTarget,
    best_workers,
    fit_accuracy,
    steps_to_accuracy,
    time_to_target,
)
from scalebench.predict.optimus.depth import DepthRegression, LeftOutDepth, LossRun, leave_out_depth, regress
from scalebench.predict.optimus.loss import LossFit, Reach, fit_loss
from scalebench.predict.optimus.online import LossTracker, Refit, refits
from scalebench.predict.optimus.speed import SpeedFit, fit_speed, speed

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
