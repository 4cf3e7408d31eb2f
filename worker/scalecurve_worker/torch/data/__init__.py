"""Batches for the steps: ``open_data`` opens synthetic data or a data set on disk for one worker."""

from scalecurve_worker.torch.data.dataset_facts import dataset_facts
from scalecurve_worker.torch.data.loader import Batch, DataSpec, Loader
from scalecurve_worker.torch.data.sources import SOURCES, DataOptions, open_data
from scalecurve_worker.training.data.images import DataError, Split

__all__ = ["SOURCES", "Batch", "DataError", "DataOptions", "DataSpec", "Loader", "Split", "dataset_facts", "open_data"]
