"""The laws of a server and of a ring, and the plot of both."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.cli import cli
from scalecurve_models.collectives.costs import LinkCost, server_seconds
from scalecurve_models.collectives.server_against_ring import (
    RING,
    SERVER,
    ring_seconds,
    server_against_ring,
)

LINK = LinkCost(1e-5, 1e-10)
SIZE = 100_000_000


@pytest.mark.parametrize("processes", [2, 4, 8, 64])
def test_the_laws_are_those_of_the_course(processes: int):
    bytes_alone = LinkCost(0.0, 1.0)
    assert server_seconds(processes, SIZE, bytes_alone) == 2 * SIZE * (processes - 1)
    assert ring_seconds(processes, SIZE, bytes_alone) == pytest.approx(2 * SIZE * (processes - 1) / processes)


def test_both_laws_are_named_and_drawn_at_every_count():
    figure = server_against_ring([8, 2, 4], [SIZE], LINK).figure
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [SERVER, RING]
    drawn = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 3]
    assert [list(line.get_xdata()) for line in drawn] == [[2, 4, 8]] * 2
    assert [line.get_ydata()[0] for line in drawn] == pytest.approx([20.02, 10.02])


def test_the_command_makes_the_folder_and_says_why_a_server_counts_twice(tmp_path: Path):
    folder = tmp_path / "new" / "plots"
    known = ("predict", "collective", "--bytes", str(SIZE), "--alpha-us", "10", "--gb-s", "10", "--plot", str(folder))
    result = CliRunner().invoke(cli, [*known, "--workers", "2,4,8"])
    assert result.exit_code == 0, result.stderr
    assert {path.name for path in folder.iterdir()} == {"server-against-ring.png", "server-against-ring.svg"}
    assert "Where the server is one of P processes, n = P - 1: 2(P-1)(α + Sβ), 20.0 ms at P = 2." in result.output
    assert CliRunner().invoke(cli, [*known, "--workers", "1"]).exit_code == 2
    (tmp_path / "file").touch()
    refused = CliRunner().invoke(cli, [*known[:-1], str(tmp_path / "file"), "--workers", "2"])
    assert (refused.exit_code, "--plot" in refused.stderr) == (3, True)
