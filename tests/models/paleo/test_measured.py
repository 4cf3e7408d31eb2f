import pytest

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.networks import shipped
from scalecurve_models.paleo.calibration import read_measured


def test_measured_steps_from_a_file(tmp_path):
    file = tmp_path / "steps.csv"
    file.write_text("batch,step_ms,workers\n32,100.5,1\n64,190,\n64,200,4\n")
    steps = read_measured(file, shipped("nin"))
    assert [(step.batch_per_worker, step.step_ms, step.workers) for step in steps] == [
        (32, 100.5, 1), (64, 190.0, 1), (64, 200.0, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch,ms\n1,2\n", "column 'ms'"),
        ("batch\n1\n", "column 'step_ms'"),
        ("", "column 'batch'"),
        ("batch,step_ms\nx,2\n", r"steps\.csv:2: expected an integer batch and milliseconds, got x, 2"),
        ("batch,step_ms\n1\n", r"steps\.csv:2: expected an integer batch"),
        ("batch,step_ms\n1,2,3,4\n", r"steps\.csv:2: "),
        ("batch,step_ms\n1,-2\n", r"steps\.csv:2: step time -2\.0 ms: expected a positive number"),
    ],
)
def test_files_of_steps_that_cannot_be(tmp_path, text, message):
    file = tmp_path / "steps.csv"
    file.write_text(text)
    with pytest.raises(FitError, match=message):
        read_measured(file, shipped("nin"))
    with pytest.raises(FitError, match="cannot be read"):
        read_measured(tmp_path / "none.csv", shipped("nin"))
