"""Damaged files as a class: whatever happened to a file that a verb reads, an exit code of the list and one line."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve.cli import cli
from scalecurve.cli.exit_codes import EXIT_FAILED, EXIT_INPUT
from tests.analysis.synthetic import experiment, write_bundle
from tests.examples import examples

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "fixtures" / "imports"
IMPORTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("README.md", "history.csv", "nccl.json", "nccl.txt", "ramble.json", "reframe.json"), ()),
    **dict.fromkeys(("cloudai_nccl_test_csv_report.csv", "table.csv", "table.json", "training_report.json"), ()),
    "megatron_run_report.csv": ("workers=8", "global_batch=128"),
    **dict.fromkeys(("megatron.log", "mllog.log", "nemo.log", "trainer_state.json"), ("workers=2",)),
    **dict.fromkeys(("dllogger.json", "events.out.tfevents.1", "maxtext.log"), ("workers=2", "global_batch=64")),
    **dict.fromkeys(("nanogpt.log", "torchtitan.log", "trainer_log.jsonl"), ("workers=2", "global_batch=64")),
    "osu.txt": ("workers=2", "nodes=1"),
    "results-summary.jsonl": ("workers=8",),
    "ucc.txt": ("workers=4", "nodes=1"),
}
"""Each sample, with what it does not state."""
EXPERIMENTS = (ROOT / "examples/layouts/layouts.yaml", ROOT / "manifests/studies/overlap/experiment.yaml")
PATIENCE_S = 60
TINY = experiment(modes=["weak"], workers=[1, 2], repetitions=1, windows=2, steps_per_window=10)

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_NUMBERS = (b"1e308", b"-1e308", b"NaN", b"Infinity", b"-1", b"0", b"1e-320", b"9" * 40, b"\xd9\xa3", b"")


def _cut(data: bytes, at: int, _: int) -> bytes:
    return data[: at % (len(data) + 1)]


def _flip(data: bytes, at: int, other: int) -> bytes:
    place = at % max(1, len(data))
    return data[:place] + bytes([other % 256]) + data[place + 1 :]


def _number(data: bytes, at: int, other: int) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    one = found[at % len(found)]
    return data[: one.start()] + _NUMBERS[other % len(_NUMBERS)] + data[one.end() :]


def _every_number(data: bytes, _: int, other: int) -> bytes:
    return _NUMBER.sub(_NUMBERS[other % len(_NUMBERS)], data)


def _delete_lines(data: bytes, at: int, other: int) -> bytes:
    lines = data.splitlines(keepends=True)
    place = at % (len(lines) + 1)
    return b"".join(lines[:place] + lines[place + 1 + other % 3 :])


def _repeat_line(data: bytes, at: int, other: int) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    place = at % len(lines)
    return b"".join(lines[:place] + [lines[place]] * (1 + other % 50) + lines[place:])


def _encode(data: bytes, _: int, other: int) -> bytes:
    return data.decode("latin-1").encode(("utf-16", "utf-8-sig", "utf-32", "cp500", "utf-7")[other % 5])


DAMAGES: tuple[Callable[[bytes, int, int], bytes], ...] = (
    *(_cut, _flip, _number, _every_number, _delete_lines, _repeat_line, _encode),
)
SEEDS = st.tuples(st.sampled_from(DAMAGES), st.integers(0, 1 << 20), st.integers(0, 255))
Damage = tuple[Callable[[bytes, int, int], bytes], int, int]


def damaged(data: bytes, damage: Damage) -> bytes:
    how, at, other = damage
    return how(data, at, other)


@contextmanager
def not_for_ever() -> Iterator[None]:
    """A verb that hangs fails its test instead of the whole run."""

    def give_up(*_: object) -> NoReturn:
        raise AssertionError(f"still at it after {PATIENCE_S} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(*words: object) -> Result:
    """The verb in this process; nothing but an exit may leave it."""
    with not_for_ever():
        done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert "Traceback" not in done.output
    assert done.exit_code in (0, EXIT_FAILED, EXIT_INPUT), done.output
    return done


def refused_in_one_line(done: Result) -> None:
    """By what stands on stderr: warnings, and one line that says what is wrong."""
    said = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert done.exit_code == 0 or len(said) == 1, done.stderr
    assert all(line.startswith("scalecurve: ") and line.isprintable() for line in said), done.stderr


def importing(folder: Path, name: str) -> Result:
    facts = [word for fact in ("mode=weak", *IMPORTS[name]) for word in ("--set", fact)]
    return run("import", folder / name, "--into", folder / "out", "--dry-run", *facts)


def test_every_sample_is_listed() -> None:
    assert {path.name for path in SAMPLES.iterdir()} == {*IMPORTS, "trace.json"}


@pytest.mark.parametrize("name", IMPORTS)
def test_undamaged_samples_are_read(name: str) -> None:
    assert importing(SAMPLES, name).exit_code == 0


@pytest.mark.parametrize("name", IMPORTS)
@settings(max_examples=examples(15, nightly=300))
@given(damage=SEEDS)
def test_imports(tmp_path_factory: pytest.TempPathFactory, name: str, damage: Damage) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    (folder / name).write_bytes(damaged((SAMPLES / name).read_bytes(), damage))
    refused_in_one_line(importing(folder, name))


@settings(max_examples=examples(40, nightly=500))
@given(damage=SEEDS)
def test_traces(tmp_path_factory: pytest.TempPathFactory, damage: Damage) -> None:
    file = tmp_path_factory.mktemp("damaged") / "trace.json"
    file.write_bytes(damaged((SAMPLES / "trace.json").read_bytes(), damage))
    refused_in_one_line(run("explain", file))


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda path: path.parent.name)
@settings(max_examples=examples(30, nightly=500))
@given(damage=SEEDS)
def test_experiments(tmp_path_factory: pytest.TempPathFactory, file: Path, damage: Damage) -> None:
    copy = tmp_path_factory.mktemp("damaged") / "a.yaml"
    copy.write_bytes(damaged(file.read_bytes(), damage))
    done = run("validate", copy)
    lines = done.output.splitlines()
    assert all(line.isprintable() and line.startswith((f"{copy}:", "scalecurve: ")) for line in lines), lines
    assert (done.exit_code == 0) == any(line.startswith(f"{copy}: ok (") for line in lines)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("whole") / "bundle", TINY)


@pytest.mark.parametrize("verb", ["explain", "report"])
@settings(max_examples=examples(12, nightly=200))
@given(damage=SEEDS, which=st.integers(0, 1000))
def test_bundles(tmp_path_factory: pytest.TempPathFactory, bundle: Path, verb: str, damage: Damage, which: int) -> None:
    """One of its files is damaged: what cannot be used is named in a line of its own, and the rest is shown."""
    files = sorted(path for path in bundle.rglob("*") if path.is_file())
    chosen = files[which % len(files)]
    whole = chosen.read_bytes()
    try:
        chosen.write_bytes(damaged(whole, damage))
        out = ("--out", tmp_path_factory.mktemp("report"), "--format", "md") if verb == "report" else ()
        done = run(verb, bundle, *out)
    finally:
        chosen.write_bytes(whole)
    assert all(line.startswith(("scalecurve: ", "warning: ")) for line in done.stderr.splitlines()), done.stderr


@settings(max_examples=examples(12, nightly=200))
@given(damage=SEEDS)
def test_packed_bundles(tmp_path_factory: pytest.TempPathFactory, damage: Damage) -> None:
    file = tmp_path_factory.mktemp("damaged") / "demo.zip"
    file.write_bytes(damaged((ROOT / "analysis/scalecurve/cli/demo.zip").read_bytes(), damage))
    done = run("explain", file)
    assert all(line.startswith(("scalecurve: ", "warning: ")) for line in done.stderr.splitlines()), done.stderr
