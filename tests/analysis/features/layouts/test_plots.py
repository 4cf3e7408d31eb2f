"""Layouts beside the best one: a mark for each, its standing, and short labels."""

from pathlib import Path

from scalecurve.bundle.open import open_bundle
from scalecurve.features.layouts.plots import label_of, layouts
from scalecurve.reporting.findings import analyze
from scalecurve_api.programs.degrees import Degrees
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import Point
from tests.analysis.synthetic import experiment, write_bundle
from tests.analysis.synthetic_layouts import equal, form, layout_bundle


def test_every_layout_has_a_mark_with_its_standing(tmp_path: Path) -> None:
    drawing = layouts(analyze([layout_bundle(tmp_path / "b")]))
    assert drawing is not None
    assert drawing.tips[0] == "shard=2 tensor=2: 100.0 %, best"
    assert [tip.rpartition(", ")[2] for tip in drawing.tips[1:]] == ["slower"] * 3
    panel = drawing.figure.axes[0]
    assert panel.get_title(loc="left") == "strong, 4 workers"
    assert [text.get_text() for text in panel.get_xticklabels()] == ["S2 T2", "P2 T2", "S4", "P2 S2"]


def test_one_worker_has_one_layout_by_any_name(tmp_path: Path) -> None:
    tree = form().wire()
    tree["spec"]["scaling"]["workers"] = [1, 2]
    tree["spec"]["matrix"] = {"parallelism.tensor": [1, "auto"], "parallelism.shard": ["auto", 1]}
    tree["spec"]["exclude"] = [{"parallelism.tensor": degree, "parallelism.shard": degree} for degree in (1, "auto")]
    spec = ScalingExperiment.model_validate(tree)
    drawing = layouts(analyze([open_bundle(write_bundle(tmp_path / "b", spec, tables=False, change=equal))]))
    assert drawing is not None
    assert [panel.get_title(loc="left") for panel in drawing.figure.axes] == ["strong, 2 workers"]


def test_without_layouts_there_is_no_plot(tmp_path: Path) -> None:
    spec = experiment("one", modes=["weak"], workers=[1, 2], repetitions=1)
    assert layouts(analyze([open_bundle(write_bundle(tmp_path / "b", spec, tables=False))])) is None


def test_labels_are_short() -> None:
    degrees = Degrees(replicate=2, tensor=4)
    axes = {"parallelism.tensor": 4, "parallelism.schedule": "interleaved"}
    point = Point(
        mode="weak", workers=8, nodes=1, workers_per_node=8, axes=axes, parallelism=degrees, series="s", name="p"
    )
    assert label_of(point) == "R2 T4\ninterleaved"
    assert label_of(point.model_copy(update={"axes": {}, "parallelism": Degrees()})) == "one"
