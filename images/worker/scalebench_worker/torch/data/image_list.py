"""The worker's lists of image files, under the name that the torch program knows."""

from scalebench_worker.data.image_list import ENDINGS, ImageList, list_images

__all__ = ["ENDINGS", "ImageList", "list_images"]
