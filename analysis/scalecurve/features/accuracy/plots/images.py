"""Training images as stored in the data set, and as training steps saw them."""

import base64
import binascii
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from scalecurve.features.accuracy.results import PointTraining
from scalecurve.features.accuracy.results.tables import class_name
from scalecurve.features.accuracy.sections import training_of
from scalecurve.reporting.drawing import Drawing
from scalecurve.reporting.drawing.sheet import DPI
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve_api.record.facts.dataset import DATASET, DatasetFacts, Picture

MOST_COLUMNS, MOST_ROWS = 8, 6
SIDE = 0.82
GAP, NAME_ROW, LABEL_WIDTH, EDGE = 0.06, 0.24, 1.9, 0.1

_CHANGED = "Top row: images from the data set with their class. Below: the same images as training steps saw them."
_UNCHANGED = "Images from the data set with their class; training steps saw them unchanged."


@plot("pictures", section="data", order=10)
def images(analysis: Analysis) -> Drawing | None:
    """Draw a row of originals, and a row for each way in which the points transformed them."""
    data_sets = [(p, DATASET.of(p.records[0])) for p in analysis.once(training_of).points]
    with_images = [(p, facts) for p, facts in data_sets if facts is not None and facts.pictures]
    if not with_images:
        return None
    rows = _rows(with_images)
    wide = min(MOST_COLUMNS, max(len(shown) for _, shown in rows))
    width = LABEL_WIDTH + wide * (SIDE + GAP) + EDGE
    height = NAME_ROW + len(rows) * (SIDE + GAP) + EDGE
    figure = Figure(figsize=(width, height), dpi=DPI)
    facts = with_images[0][1]
    for row, (label, shown) in enumerate(rows):
        bottom = height - NAME_ROW - (row + 1) * (SIDE + GAP)
        figure.text(
            (LABEL_WIDTH - 0.1) / width, (bottom + SIDE / 2) / height, label, ha="right", va="center", fontsize=8
        )
        for column, image in enumerate(shown[:wide]):
            left = LABEL_WIDTH + column * (SIDE + GAP)
            axes = figure.add_axes((left / width, bottom / height, SIDE / width, SIDE / height))
            axes.set_axis_off()
            grey = image.shape[2] == 1
            axes.imshow(image[:, :, 0] if grey else image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            if row == 0:
                name = class_name(facts, facts.pictures[column].label)
                axes.set_title(name if len(name) <= 14 else f"{name[:13]}…", fontsize=8, fontweight="normal", pad=3)
    caption = _CHANGED if len(rows) > 1 else _UNCHANGED
    return Drawing(figure, "Training images", caption)


def _rows(trained_points: Sequence[tuple[PointTraining, DatasetFacts]]) -> list[tuple[str, list[Any]]]:
    """(label, images (height, width, channels)); points that show the same share a row."""
    first = trained_points[0][1].pictures
    rows = [("in the data set", [_image(picture, picture.original) for picture in first])]
    trained: dict[tuple[str, ...], tuple[list[str], list[Picture]]] = {}
    for p, facts in trained_points:
        key = tuple(picture.trained for picture in facts.pictures)
        trained.setdefault(key, ([], facts.pictures))[0].append(p.label)
    if all(picture.trained == picture.original for _, facts in trained_points for picture in facts.pictures):
        return rows
    for labels, shown in list(trained.values())[:MOST_ROWS]:
        label = labels[0] if len(labels) == 1 else f"{labels[0]}, and {len(labels) - 1} more"
        named = "as trained on" if len(trained) == 1 else "\n".join(part[:30] for part in label.split(", "))
        rows.append((named, [_image(picture, picture.trained) for picture in shown]))
    return rows


def _image(picture: Picture, encoded: str) -> Any:
    """Uint8 (height, width, channels); black where the record's bytes are not an image of its shape."""
    shape = tuple(picture.shape)
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if len(shape) != 3 or shape[0] not in (1, 3) or len(data) != prod(shape):
        return np.zeros((8, 8, 1), dtype=np.uint8)
    return np.frombuffer(data, dtype=np.uint8).reshape(shape).transpose(1, 2, 0)
