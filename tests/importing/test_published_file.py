"""Published curves of a file: every row is checked, and a mistake names its place."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.cli import cli
from scalecurve_importing.published_file import read_published
from scalecurve_importing.reading import SourceError
from tools import ROOT

PAGE = ROOT / "docs" / "how-to" / "import-numbers.md"


def test_rows_that_share_everything_else_are_a_curve(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(
        "network,title,gpus,images/s,efficiency,batch_per_gpu\n"
        "resnet50,A,1,100,,32\nresnet50,A,8,720,,32\nvgg16,A,8,,90 %,32\nvgg16,B,16,,0.8,\n"
    )
    first, second, third = read_published(tmp_path / "p.csv")
    assert (first.network, first.quantity, first.points) == ("resnet50", "throughput", ((1, 100.0), (8, 720.0)))
    assert (second.quantity, second.points) == ("efficiency", ((8, 0.9),))
    assert (third.batch_per_worker, third.source) == (None, "p.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpus,speedup\n4,1\n4,2\n", "p.csv, row 3: a second value of this curve at 4 workers"),
        ("gpus,speedup\n4,fast\n", "p.csv, row 2, column 'speedup': got 'fast', expected a positive number"),
        ("gpus,efficiency\n4,95\n", "p.csv, row 2, column 'efficiency': got '95', expected a share such as "
         "0.95 or 95 %"),
        ("speedup\n4\n", "p.csv, row 2: expected a column workers"),
        ("gpus,title\n4,x\n", "p.csv, row 2: expected one of throughput, speedup and efficiency, got 0"),
        ("gpus,speedup,published\n4,1,May\n", "p.csv, row 2, column 'published': got 'May', expected a year or a month "
         "such as 2017-08"),
    ],
)  # fmt: skip
def test_a_mistake_names_its_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(SourceError) as refused:
        read_published(tmp_path / "p.csv")
    assert str(refused.value) == message
    result = CliRunner().invoke(cli, ["report", "nowhere", "--published", str(tmp_path / "p.csv")])
    assert (result.exit_code, result.stderr) == (2, f"scalecurve: --published {message}\n")


def test_the_files_of_the_page(tmp_path: Path) -> None:
    """As a reader copies them: one is imported, the other stands beside it."""
    lab, published = re.findall(r"```csv\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (tmp_path / "lab.csv").write_text(lab)
    (tmp_path / "published.csv").write_text(published)
    out = ["--out", str(tmp_path / "out"), "--format", "md", "--published", str(tmp_path / "published.csv")]
    for words in (["import", str(tmp_path / "lab.csv"), "--into", str(tmp_path / "lab")],
                  ["report", str(tmp_path / "lab"), *out]):  # fmt: skip
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "report.md").read_text()
    assert "PowerAI DDL | 32 | 256 | speedup | 60.60 | 94.7 %" in page
    assert "Not measured here: published by others" in page
