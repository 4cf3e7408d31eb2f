"""What a step consumes: ``open_data`` gives a worker its batches, synthetic or from a data set on disk."""

from scalecurve_worker.data.images import DataError, Split
from scalecurve_worker.torch.data.dataset_facts import dataset_facts
from scalecurve_worker.torch.data.loader import Batch, DataSpec, Loader
from scalecurve_worker.torch.data.sources import SOURCES, DataOptions, open_data

__all__ = ["SOURCES", "Batch", "DataError", "DataOptions", "DataSpec", "Loader", "Split", "dataset_facts", "open_data"]
