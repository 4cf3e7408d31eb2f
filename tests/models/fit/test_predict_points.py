"""``predict POINTS.csv``: its columns, its rows, and one line for a file that is wrong."""

import json

import pytest
from click.testing import CliRunner

from scalecurve.cli import cli

CURVES = """series,workers,nodes,throughput,gpu
a,1,1,100,k80
a,8,1,760,k80
a,16,2,1400,k80
b,1,1,50,
b,2,1,98,
b,4,1,190,
"""


def rows(tmp_path, text, *options):
    (tmp_path / "points.csv").write_text(text)
    result = CliRunner().invoke(cli, ["predict", str(tmp_path / "points.csv"), "-o", "json", *options])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["predicted"]["rows"]


def test_every_series_has_a_prediction_a_range_or_a_refusal_at_every_count(tmp_path):
    got = rows(tmp_path, CURVES, "--workers", "8,32")
    assert [(row["series"], row["workers"], row["status"]) for row in got] == [
        ("a", 8, "refused"),  # without its own points, two are left
        ("a", 32, "predicted"),
        ("b", 8, "predicted"),
        ("b", 32, "range"),
    ]
    for row in got:
        if row["status"] == "predicted":
            assert row["low"] < row["throughput"] < row["high"]
            assert row["model"]
        else:
            assert row["throughput"] is None
            assert row["reason"]


def test_a_row_without_throughput_requests_its_count_and_nodes(tmp_path):
    got = rows(tmp_path, CURVES + "b,8,1,,\nb,6,2,,\n")
    assert [(row["workers"], row["status"]) for row in got] == [(8, "predicted"), (6, "range")]


def test_series_and_nodes_are_optional(tmp_path):
    (row,) = rows(tmp_path, "throughput,workers\n10,1\n19,2\n37,4\n", "--workers", "8")
    assert (row["series"], row["status"]) == ("", "predicted")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workers,speed\n1,2\n", "no column throughput"),
        ("workers,throughput\n1.5,2\n", "points.csv:2: workers '1.5': expected an integer"),
        ("workers,throughput\n1,-2\n", "points.csv:2: throughput '-2': expected a positive number"),
        ("workers,throughput,nodes\n1,2,3\n", "points.csv:2: nodes 3 exceed workers 1"),
        ("workers,throughput\n1,2,3\n", "points.csv:2: expected 2 values, got 3"),
        ("workers,throughput\n1,\n", "no row with a throughput"),
        ("workers,throughput\n1,2\n", "nothing to predict"),
    ],
)
def test_bad_files_get_one_line(tmp_path, text, message):
    (tmp_path / "points.csv").write_text(text)
    result = CliRunner().invoke(cli, ["predict", str(tmp_path / "points.csv")])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_options_of_bundles_are_refused_for_points(tmp_path):
    (tmp_path / "points.csv").write_text(CURVES)
    result = CliRunner().invoke(cli, ["predict", str(tmp_path / "points.csv"), "--workers", "8", "--device", "H200"])
    assert result.exit_code == 2
    assert "--device, --network, --hold-out and --overlay do not apply" in result.stderr


def test_the_second_node_is_what_tells_most_about_several(tmp_path):
    (tmp_path / "points.csv").write_text("series,workers,nodes,throughput\nb,1,1,50\nb,2,1,98\nb,4,1,190\n")
    options = ["--workers", "64", "--next", "--per-worker-hour", "3", "--currency", "USD", "-o", "json"]
    result = CliRunner().invoke(cli, ["predict", str(tmp_path / "points.csv"), *options])
    assert result.exit_code == 0, result.output
    first, *others = json.loads(result.stdout)["next"]["rows"]
    assert (first["workers"], first["nodes"]) == (16, 2)
    assert all(row["per_worker_hour"] <= first["per_worker_hour"] for row in others)
    assert first["cost"] == pytest.approx(16 * 3 / 6)
    assert first["expected"] < first["width"]


def test_next_needs_a_count_to_predict(tmp_path):
    (tmp_path / "points.csv").write_text(CURVES)
    result = CliRunner().invoke(cli, ["predict", str(tmp_path / "points.csv"), "--next"])
    assert result.exit_code == 2
    assert "--next needs the count to predict" in result.stderr
