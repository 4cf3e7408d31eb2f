"""The worker's crops, under the name that the torch program knows."""

from scalebench_worker.data.crops import AREA, RATIO, middle_crop, random_crop

__all__ = ["AREA", "RATIO", "middle_crop", "random_crop"]
