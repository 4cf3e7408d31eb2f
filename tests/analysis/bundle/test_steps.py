import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalecurve
from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.bundle.problem import FileError
from scalecurve.bundle.step_summary import summarize_steps
from scalecurve.bundle.steps import QUANTILES, quantiles, read_steps
from scalecurve.bundle.trial import Trial
from scalecurve_api.record.rank import WindowKind
from tests.analysis.synthetic import Truth, experiment, seal, write_bundle

TINY = experiment(modes=["weak"], workers=[1, 3], repetitions=1, windows=2, steps_per_window=30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_bundle(tmp_path, TINY)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("shared"), TINY)


def three_workers(bundle: Bundle) -> Trial:
    return next(trial for trial in bundle.trials if trial.spec.point.workers == 3)


def table_of(folder: Path) -> Path:
    return three_workers(open_bundle(folder)).folder / "steps.parquet"


def replace_table(folder: Path, data: bytes) -> None:
    """Put another table into the bundle and vouch for it in the record."""
    trial = three_workers(open_bundle(folder))
    (trial.folder / "steps.parquet").write_bytes(data)
    assert trial.record is not None
    files = {**trial.record.files, "steps.parquet": hashlib.sha256(data).hexdigest()}
    seal(trial.folder, trial.record.model_copy(update={"files": files}))


def test_timed_steps_are_read_by_rank(folder: Path):
    trial = three_workers(open_bundle(folder))
    steps = read_steps(trial)
    frame = pq.read_table(trial.folder / "steps.parquet").to_pandas()
    assert trial.record is not None
    timed = {w.index for w in trial.record.windows if w.kind is WindowKind.train}
    for rank in range(3):
        rows = frame[(frame["rank"] == rank) & frame["window"].isin(timed)]
        assert steps.timed[rank].tolist() == rows["duration_ns"].tolist()
    assert steps.timed.shape == (3, 60)
    assert steps.own is not None
    assert steps.own.shape == (3, 60)


def test_the_summary_is_of_the_slowest_rank(folder: Path):
    bundle = open_bundle(folder)
    trial = three_workers(bundle)
    steps = read_steps(trial)
    slowest = np.sort(steps.timed.max(axis=0)) / 1e9
    found = summarize_steps([bundle]).of["synthetic", trial.name]
    assert found.slowest == tuple(slowest[round(q * 59)] for q in QUANTILES)
    assert found.steps == 60
    assert sum(found.slowest_share) == pytest.approx(1)
    assert len(found.ranks) == 3


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=60))
def test_quantiles_are_order_statistics(values: list[int]):
    ordered = sorted(values)
    expected = tuple(ordered[round(q * (len(values) - 1))] / 1e9 for q in QUANTILES)
    assert quantiles(np.array(values, dtype=np.int64)) == expected


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(shared: Path, threads: int):
    bundle = open_bundle(shared)
    assert summarize_steps([bundle], threads) == summarize_steps([bundle], 2)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "missing", "other"])
def test_a_damaged_table_is_named_and_the_rest_is_read(folder: Path, damage: str):
    path = table_of(folder)
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    elif damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "empty":
        data.clear()
    elif damage == "other":
        data = bytearray((path.parent.parent / "weak-1-1x1-r1" / "steps.parquet").read_bytes())
    path.write_bytes(data)
    if damage == "missing":
        path.unlink()
    summaries = summarize_steps([open_bundle(folder)])
    ((label, problem),) = summaries.problems
    assert (label, problem.file) == ("synthetic", "trials/weak-3-1x3-r1/steps.parquet")
    assert ("missing" if damage == "missing" else "sha256") in problem.what
    assert [name for _, name in summaries.of] == ["weak-1-1x1-r1"]


def _rewritten(folder: Path, change) -> bytes:
    sink = pa.BufferOutputStream()
    table = change(pq.read_table(table_of(folder)))
    with pq.ParquetWriter(sink, table.schema) as writer:
        for rank in sorted(set(table.column("rank").to_pylist())) if "rank" in table.column_names else [None]:
            rows = table if rank is None else table.filter(pa.compute.equal(table["rank"], rank))
            writer.write_table(rows)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.filter(pa.compute.less(t["rank"], 2)), "3 ranks of 120 steps have more"),
        (lambda t: t.set_column(0, "rank", pa.array(np.array(t["rank"]) + 1, pa.int32())), "rank 1, expected rank 0"),
        (lambda t: t.filter(pa.compute.not_equal(t["step"], 4)), "misses steps between"),
        (
            lambda t: t.set_column(1, "step", pa.array(np.array(t["step"]) + 90, pa.int32())),
            "is missing steps of window",
        ),
        (lambda t: t.drop_columns(["duration_ns"]), "column duration_ns is missing"),
        (lambda t: t.drop_columns(["step"]), "not a step table"),
        (lambda t: t.set_column(4, "duration_ns", pa.array(np.zeros(len(t), np.int64))), "not positive"),
        (lambda t: t.set_column(4, "duration_ns", pa.array(["x"] * len(t))), "duration_ns is string"),
        (lambda t: t.set_column(4, "duration_ns", pa.nulls(len(t), pa.int64())), "without a duration"),
    ],
)
def test_a_table_that_says_something_else_is_refused(folder: Path, change, said: str):
    replace_table(folder, _rewritten(folder, change))
    with pytest.raises(FileError, match=said):
        read_steps(three_workers(open_bundle(folder)))


def test_a_rank_of_several_row_groups_is_joined(folder: Path):
    before = read_steps(three_workers(open_bundle(folder)))
    sink = pa.BufferOutputStream()
    table = pq.read_table(table_of(folder))
    with pq.ParquetWriter(sink, table.schema) as writer:
        for rank in range(3):
            writer.write_table(table.filter(pa.compute.equal(table["rank"], rank)), row_group_size=37)
    replace_table(folder, sink.getvalue().to_pybytes())
    after = read_steps(three_workers(open_bundle(folder)))
    assert np.array_equal(before.timed, after.timed)


def test_a_name_that_is_no_text_is_refused(folder: Path):
    replace_table(folder, table_of(folder).read_bytes().replace(b"duration_ns", b"\x80uration_ns"))
    with pytest.raises(FileError, match="not a step table"):
        read_steps(three_workers(open_bundle(folder)))


@settings(max_examples=60)
@given(st.data())
def test_no_vouched_for_garbage_gives_a_traceback(shared: Path, data: st.DataObject):
    """Even a table whose sha256 is right may be nonsense."""
    trial = three_workers(open_bundle(shared))
    path, record = trial.folder / "steps.parquet", trial.folder / "trial.json"
    whole, text = path.read_bytes(), record.read_bytes()
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        if data.draw(st.booleans()):
            damaged[at] = data.draw(st.integers(0, 255))
        else:
            del damaged[at : at + data.draw(st.integers(1, 50))]
    try:
        replace_table(shared, bytes(damaged))
        summarize_steps([open_bundle(shared)])
    finally:
        path.write_bytes(whole)
        record.write_bytes(text)


def test_trials_without_tables_have_no_summary(tmp_path: Path):
    bundle = open_bundle(write_bundle(tmp_path, TINY, Truth(), tables=False))
    summaries = summarize_steps([bundle])
    assert (dict(summaries.of), summaries.problems) == ({}, ())
    assert json.loads((bundle.trials[0].folder / "trial.json").read_text())["files"] == {}


@pytest.mark.processes
def test_a_verb_that_reads_steps_imports_no_pandas() -> None:
    demo = str(Path(scalecurve.__file__).parent / "cli/demo.zip")
    code = (
        "import sys\nfrom scalecurve.cli import cli\n"
        f"cli.main(['cost', {demo!r}, '--output', 'json'], standalone_mode=False)\n"
        "assert 'pyarrow' in sys.modules\nassert 'pandas' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
