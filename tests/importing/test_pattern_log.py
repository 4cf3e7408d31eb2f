"""Logs of any program by a pattern: lines after the tools' own, with our words and numbers."""

import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scalecurve.cli import cli
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_importing.columns import Statements
from scalecurve_importing.import_bundle import import_bundle
from scalecurve_importing.pattern_library import library
from scalecurve_importing.reading import SourceError, Unit

TOOLS = {
    "Horovod's benchmark": (
        r"Iter #(?P<step>\d+): (?P<throughput_per_worker>[\d.]+) img/sec per GPU",
        {"throughput_per_worker": "images/s"}, {}, "Iter #{0}: 50.0 img/sec per GPU", 200.0, Unit.samples),
    "tf_cnn_benchmarks": (
        r"^(?P<step>\d+)\s+images/sec: (?P<throughput_per_worker>[\d.]+)", {"throughput": "images/s"},
        {}, "{0}\timages/sec: 50.0 +/- 0.2 (jitter = 0.1)\t7.1", 200.0, Unit.samples),
    "nanoGPT": (
        r"iter (?P<step>\d+): loss (?P<loss>[\d.]+), time (?P<step_time_ms>[\d.]+)ms", {}, {"batch_per_worker": "12"},
        "iter {0}: loss 3.1, time 240.00ms, mfu 30.1%", 200.0, Unit.samples),
    "torchtune": (
        r"Step (?P<step>\d+) \| .*tokens_per_second_per_gpu:(?P<throughput_per_worker>[\d.]+)",
        {"throughput": "tokens/s"}, {},
        "Step {0} | loss:2.5 lr:1e-05 tokens_per_second_per_gpu:50", 200.0, Unit.tokens),
    "DeepSpeed's timer": (
        r"global_step=(?P<step>\d+),.* CurrSamplesPerSec=(?P<throughput>[\d.]+)", {"throughput": "samples/s"}, {},
        "[2026-05-05 09:00:00,1] [INFO] [timer.py:1:stop] epoch=0/micro_step=9/global_step={0}, "
        "RunningAvgSamplesPerSec=180.0, CurrSamplesPerSec=200.0, MemAllocated=3.1GB", 200.0, Unit.samples),
    "fairseq": (
        r'"wps": "(?P<throughput>[\d.]+)".*"num_updates": "(?P<step>\d+)"', {"throughput": "tokens/s"}, {},
        '2026-05-05 09:00:00 | INFO | train_inner | {{"epoch": 1, "wps": "200", "num_updates": "{0}"}}', 200.0,
        Unit.tokens),
    "a bar of tqdm": (
        r"\| (?P<step>\d+)/\d+ \[.*?, +(?P<step_time>[\d.]+)s/it", {}, {"global_batch": "40"},
        "train:  5%|▌         | {0}/500 [00:10<01:00,  0.20s/it]", 200.0, Unit.samples),
    "one's own": (
        r"^step=(?P<step>\d+) batch=(?P<global_batch>\d+) dt=(?P<step_time>[\d.]+)", {}, {},
        "step={0} batch=100 dt=0.5", 200.0, Unit.samples),
}  # fmt: skip


def imported(
    folder: Path, text: str, pattern: str, facts: dict[str, str], units: dict[str, str], ok: str | None = None
) -> TrialRecord:
    (folder / "out.log").write_text(text)
    statements = Statements({"workers": "4", "mode": "weak", **facts}, units=units, pattern=pattern, ok=ok)
    (record,) = import_bundle([folder / "out.log"], folder / "out", statements=statements, dry_run=True).records
    return record


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>:", "2026-05-05T09:00:00Z "])
def test_a_pattern_reads_the_lines_of_any_tool(tmp_path: Path, tool: str, prefix: str) -> None:
    pattern, units, facts, line, rate, unit = TOOLS[tool]
    text = "\n".join(prefix + each for each in ["hello", *(line.format(step) for step in range(1, 31)), "done"])
    record = imported(tmp_path, text, pattern, facts, units, ok="^done$")
    assert record.throughput == pytest.approx(rate)
    assert record.summary is not None
    assert record.summary.sample_unit == unit.value
    assert record.message == f"first 5 of 30 steps skipped as warm-up; lines by pattern {pattern}"


STEP = r"step (?P<step>\d+) (?P<throughput>[\d.]+)"


@pytest.mark.parametrize(
    ("pattern", "units", "ok", "refusal"),
    [
        (
            STEP,
            {},
            None,
            "--pattern: group throughput states no unit; add --unit throughput=UNIT, which is samples/s or",
        ),
        (STEP, {"throughput": "GB/s"}, None, "--pattern: got 'GB/s', expected samples/s or tokens/s"),
        (STEP, {"throughput": "tokens/s"}, "^finished", "has no line with --ok '^finished': the run did not end well"),
        ("stride " + STEP, {"throughput": "tokens/s"}, None, "out.log: has no line of pattern 'stride step"),
        ("step (?P<step", {}, None, "--pattern: got 'step (?P<step', expected a regular expression: missing >"),
        (r"(?P<speed>\d+)", {}, None, "expected named groups step, step_time, "),
        (STEP, {"throughput": "tokens/s"}, "(", "--ok: got '(', expected a regular expression"),
    ],
)
def test_what_counts_for_nothing_is_refused(
    tmp_path: Path, pattern: str, units: dict[str, str], ok: str | None, refusal: str
) -> None:
    with pytest.raises(SourceError) as refused:
        imported(tmp_path, "step 1 70.0\nstep 2 70.0\n", pattern, {}, units, ok)
    assert refusal in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("option", ["--pattern", "--ok"])
def test_a_pattern_that_takes_for_ever_ends(tmp_path: Path, option: str) -> None:
    slow = r"(?:a+)+$"
    pattern, ok = (rf"(?P<step_time>\d)?{slow}", None) if option == "--pattern" else (r"(?P<step_time>\d+)s", slow)
    begin = time.process_time()
    with pytest.raises(SourceError, match=rf"{option}: takes more than 0\.2 s over a line of 41 characters"):
        imported(tmp_path, f"{'a' * 40}!\n", pattern, {"global_batch": "8"}, {}, ok)
    assert time.process_time() - begin < 5


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["import", *map(str, arguments)])


def sources(folder: Path) -> list[Path]:
    files = [folder / f"run_{workers}.txt" for workers in (1, 2)]
    for file in files:
        file.write_text("\n".join(["begin", *(f"step {step} 70.0" for step in range(1, 21)), "end"]))
    return files


def test_a_dry_run_shows_the_first_three_matches(tmp_path: Path) -> None:
    named = ["--workers-from", r"run_(?P<workers>\d+)", "--set", "mode=weak", "--into", tmp_path / "out"]
    options = ["--pattern", STEP, "--unit", "throughput=tokens/s", *named]
    result = run(*sources(tmp_path), *options, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "run_1.txt, line 2: step 1, rate 70 in 'step 1 70.0'" in result.stdout
    assert result.stdout.count(", rate 70 in ") == 6
    assert "whether the run ended well is not known (--ok)" in result.stdout
    result = run(*sources(tmp_path), *options, "--ok", "^end$")
    assert result.exit_code == 0, result.output
    texts = [path.read_text() for path in (tmp_path / "out").rglob("trial.json")]
    assert len(texts) == 2
    assert all("lines by pattern step (?P<step>" in text for text in texts), "the pattern is kept"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ok", "x"], "--ok: without --pattern"),
        (["--workers-from", "walk_(?P<workers>.)"], "--workers-from: the name 'run_1.txt' does not match"),
        (["--workers-from", "run_(?P<wokers>.)"], "--workers-from: 'wokers' is no field"),
        (["--workers-from", "run_(.)"], "--workers-from: no named group"),
        (["--workers-from", "("], "--workers-from: got '(', expected a regular expression"),
        (
            ["--workers-from", "run_(?P<workers>.)", "--set", "workers=8"],
            "has workers 1, and --set workers=8 contradicts",
        ),
        (["--format", "pattern"], "--format pattern: add --pattern REGEX"),
    ],
)
def test_options_of_a_pattern_are_checked(tmp_path: Path, options: list[str], said: str) -> None:
    result = run(*sources(tmp_path), "--into", tmp_path / "out", *options)
    assert result.exit_code == 2, result.output
    assert said in result.stderr


LINES = {
    "horovod-synthetic": (TOOLS["Horovod's benchmark"][3], {}, 200.0),
    "tf-cnn-benchmarks": (TOOLS["tf_cnn_benchmarks"][3], {}, 200.0),
    "nanogpt": (TOOLS["nanoGPT"][3], {"batch_per_worker": "12"}, 200.0),
    "torchtune": (TOOLS["torchtune"][3], {}, 200.0),
    "deepspeed-timer": (TOOLS["DeepSpeed's timer"][3], {}, 200.0),
    "fairseq": (TOOLS["fairseq"][3].replace("{{", "{").replace("}}", "}"), {}, 200.0),
    "detectron2": (
        "[05/05 09:00:00 d2.utils.events]:  eta: 0:02:11  iter: {0}  total_loss: 0.91  loss_cls: 0.2  time: 0.2000  "
        "last_time: 0.21  data_time: 0.003  lr: 0.0002  max_mem: 2300M",
        {"global_batch": "40"},
        200.0,
    ),
    "mmengine": (
        "05/05 09:00:00 - mmengine - INFO - Epoch(train)   [1][ {0}/500]  lr: 1e-02  eta: 0:10:00  time: 0.2000  "
        "data_time: 0.01  memory: 900  loss: 0.4",
        {"global_batch": "40"},
        200.0,
    ),
    "open-clip": (
        "2026-05-05,09:00:00 | INFO | Train Epoch: 0 [  {0}/64000 (5%)] Data (t): 0.010 Batch (t): 0.640, 200.000/s, "
        "50.0000/s/gpu LR: 0.000005 Logit Scale: 14.3",
        {},
        200.0,
    ),
    "tqdm": ("train:  5%|▌         | {0}/500 [00:10<01:00,  5.00it/s]", {"global_batch": "40"}, 200.0),
    "lightning-bar": (
        "Epoch 0:  10%|█         | {0}/500 [00:10<01:00,  5.00it/s, v_num=0]",
        {"global_batch": "40"},
        200.0,
    ),
}  # fmt: skip
ENDS = {"horovod-synthetic": "Total img/sec on 4 GPU(s): 200.0 +-0.1", "tf-cnn-benchmarks": "total images/sec: 200.00"}


def test_every_tool_of_the_library_has_a_line_and_a_source() -> None:
    assert library().keys() == LINES.keys()
    assert all(tool.source.startswith("https://") for tool in library().values())


@pytest.mark.parametrize("tool", LINES)
def test_a_tool_is_read_by_its_name_and_most_by_themselves(tmp_path: Path, tool: str) -> None:
    line, facts, rate = LINES[tool]
    log = tmp_path / "out.log"
    log.write_text("\n".join(["hello", *(line.replace("{0}", str(step)) for step in range(1, 31)), ENDS.get(tool, "")]))
    stated = {"workers": "4", "mode": "weak", **facts}
    for pattern in [tool, None] if library()[tool].automatic else [tool]:
        statements = Statements(stated, pattern=pattern)
        (record,) = import_bundle([log], tmp_path / "out", statements=statements, dry_run=True).records
        assert record.throughput == pytest.approx(rate)
        assert f"lines of {tool} by pattern " in record.message


def test_a_run_of_a_tool_that_did_not_end_does_not_count(tmp_path: Path) -> None:
    line, facts, _ = LINES["horovod-synthetic"]
    (tmp_path / "out.log").write_text("\n".join(line.replace("{0}", str(step)) for step in range(30)))
    statements = Statements({"workers": "4", "mode": "weak", **facts})
    with pytest.raises(SourceError, match="the run did not end well"):
        import_bundle([tmp_path / "out.log"], tmp_path / "out", statements=statements, dry_run=True)


def horovod_log(file: Path, workers: int, batch: int = 64) -> Path:
    """What Horovod's synthetic benchmark prints, with numbers of our own."""
    head = ["Model: resnet50", f"Batch size: {batch}", f"Number of GPUs: {workers}", "Running benchmark..."]
    laps = [f"Iter #{lap}: {300.0 + lap} img/sec per GPU" for lap in range(10)]
    file.write_text("\n".join([*head, *laps, f"Total img/sec on {workers} GPU(s): {300.0 * workers} +-8.8"]))
    return file


@pytest.mark.parametrize(("batch_of_4", "mode"), [(64, "weak"), (16, "strong")])
def test_what_a_tools_log_states_of_its_run_is_not_asked_for(tmp_path: Path, batch_of_4: int, mode: str) -> None:
    logs = [horovod_log(tmp_path / "1.log", 1), horovod_log(tmp_path / "4.log", 4, batch_of_4)]
    first, second = import_bundle(logs, tmp_path / "out", statements=Statements(), dry_run=True).records
    assert [record.trial.point.mode.value for record in (first, second)] == [mode, mode]
    assert (second.trial.point.global_batch, second.trial.workload.model_dump()["model"]) == (
        4 * batch_of_4,
        "resnet50",
    )
    with pytest.raises(SourceError, match="has batch_per_worker 64, and --set batch_per_worker=32 contradicts it"):
        import_bundle(logs, tmp_path / "out", statements=Statements({"batch_per_worker": "32"}), dry_run=True)


def test_a_log_of_two_batches_is_refused(tmp_path: Path) -> None:
    log = horovod_log(tmp_path / "1.log", 1)
    log.write_text(log.read_text() + "\nBatch size: 32")
    with pytest.raises(SourceError, match=r"1\.log: has batch_per_worker 64 and 32"):
        import_bundle([log], tmp_path / "out", statements=Statements(), dry_run=True)


def test_a_file_of_ones_own_adds_tools_and_takes_the_place_of_others(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        "[ours]\npattern = '^lap (?P<step>\\d+) (?P<step_time>[\\d.]+)'\n[nanogpt]\npattern = '(?P<step>x)'\n"
    )
    (tmp_path / "run_2.txt").write_text("\n".join(f"lap {step} 0.5" for step in range(1, 21)))
    options = ["--set", "mode=weak", "--set", "workers=2", "--set", "global_batch=10", "--patterns", own]
    result = run(tmp_path / "run_2.txt", *options, "--pattern", "ours", "--into", tmp_path / "out", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "line 1: step 1, seconds 0.5 in 'lap 1 0.5'" in result.stdout
    assert library(own)["nanogpt"].pattern == "(?P<step>x)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[ours]\npattern = '('", "[ours] pattern: a regular expression: missing ), unterminated subpattern"),
        ("[ours]\nunit = 'samples/s'", "[ours] pattern: Field required"),
        ("[ours]\npattern = '(?P<step>.)'\nunits = 'x'", "[ours] units: Extra inputs are not permitted"),
        ("[ours", "cannot be read as TOML"),
        ("ours = 3", "[ours]"),
        ("[ours]\npattern = '(?P<step>.)'\nfacts = ['(']", "[ours] facts: got '(', expected a regular expression"),
        ("[ours]\npattern = '(?P<step>.)'\nfacts = ['(?P<gpu>.)']", "[ours] facts: got '(?P<gpu>.)', expected named"),
    ],
)
def test_a_file_of_patterns_is_checked(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(SourceError) as refused:
        library(tmp_path / "own.toml")
    assert said in str(refused.value)


def test_a_misspelled_tool_is_told_from_a_pattern(tmp_path: Path) -> None:
    result = run(*sources(tmp_path), "--pattern", "nanogtp", "--set", "mode=weak", "--into", tmp_path / "out")
    assert result.exit_code == 2
    assert "--pattern: nanogtp is no known tool (did you mean nanogpt? known: deepspeed-timer," in result.stderr
