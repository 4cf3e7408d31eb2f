"""What a log states; units are proved by the samples between its events, and refused where these say otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_corpus.schema import CorpusError
from tests.tools.corpus.synthetic_round import START, event, log
from tools.corpus.mlperf_run import LoggedRun, read_log
from tools.corpus.mlperf_units import rate_of

WORKERS = 8
NO_EVENTS = (
    ':::MLLOG {"key": "run_start", "time_ms": 1e999, "metadata": {}}',
    ':::MLLOG {"key": "run_start"}',
    ':::MLLOG {"key": "run_start", "time_ms": [1]}',
)


def logged(*lines: str, benchmark: str = "bert", batch: int = 32, train_samples: int | None = None) -> LoggedRun:
    facts = [event(START, "submission_benchmark", benchmark), event(START, "global_batch_size", batch)]
    if train_samples is not None:
        facts.append(event(START, "train_samples", train_samples))
    return read_log("\n".join([*facts, event(START, "run_start"), *lines]).encode(), "a.txt")


def test_a_log_states_batch_times_and_steps() -> None:
    run = read_log(log(step_s=0.5, batch=8, accumulation=2), "a.txt")
    assert (run.benchmark, run.global_batch, run.accumulation, run.started_at) == ("llama2_70b_lora", 8, 2, START)
    assert run.minutes == pytest.approx((4 * (50 + 3)) / 60)
    assert (run.step_s, run.throughputs) == ((0.5,) * 4, ())
    assert run.progress == pytest.approx(16)


def test_a_run_that_missed_its_target_has_no_minutes() -> None:
    assert read_log(log(success=False), "a.txt").minutes is None


def outcome(data: bytes) -> LoggedRun | str:
    """The run, or the line with which the log is refused."""
    try:
        return read_log(data, "a.txt")
    except CorpusError as error:
        return str(error)


@given(cut=st.integers(0, 4000))
def test_a_truncated_log_is_read_up_to_its_last_line_or_refused(cut: int) -> None:
    read = outcome(log()[:cut])
    if isinstance(read, str):
        assert read.startswith("a.txt")
        assert "\n" not in read
    else:
        assert read.minutes is None or cut >= len(log()) - 1


@given(noise=st.binary(max_size=300), at=st.integers(0, 3000))
def test_damage_to_a_log_is_refused_in_one_line_or_harmless(noise: bytes, at: int) -> None:
    data = log()
    read = outcome(data[:at] + noise + data[at + len(noise) :])
    assert not isinstance(read, str) or "\n" not in read


@pytest.mark.parametrize("line", NO_EVENTS)
def test_lines_that_are_no_event_are_named(line: str) -> None:
    with pytest.raises(CorpusError, match=r"a\.txt, line 1: "):
        read_log(line.encode(), "a.txt")


def test_lines_of_other_keys_are_not_parsed() -> None:
    run = read_log(b':::MLLOG {"key": "init_start", broken\n' + log(), "a.txt")
    assert run.minutes is not None


def test_a_log_without_a_start_or_with_two_is_refused() -> None:
    for data in (b"", log() + log()):
        with pytest.raises(CorpusError, match="run_start"):
            read_log(data, "a.txt")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0, True, "0.5", None])
def test_figures_that_are_no_positive_number_are_left_out(value: object) -> None:
    assert logged(event(START + 1, "tracked_stats", {"train_step_time": value})).step_s == ()


def test_a_throughput_of_rounded_minutes_has_a_resolution() -> None:
    stats = {"train_time": 0.8, "throughput": 1e6}
    assert logged(event(START + 50, "tracked_stats", stats)).resolution == pytest.approx(0.0125)
    assert read_log(log(), "a.txt").resolution is None


def test_blocks_whose_stop_repeats_the_count_of_their_start() -> None:
    run = logged(
        event(START, "block_start", samples_count=0),
        event(START + 10, "block_stop", samples_count=0),
        event(START + 15, "block_start", samples_count=320),
        event(START + 25, "block_stop", samples_count=320),
        event(START + 25, "eval_start", samples_count=640),
        benchmark="other",
    )
    assert run.progress == pytest.approx(32)


def test_a_start_that_states_the_length_of_its_block_proves_the_same_unit() -> None:
    run = read_log(log(step_s=0.5, batch=8, blocks=9, states_length=True), "a.txt")
    assert run.progress == pytest.approx(16)
    assert rate_of(run, WORKERS).value == pytest.approx(16)


def test_progress_between_evaluations_in_samples_and_in_epochs() -> None:
    def lines(scale: float) -> list[str]:
        return [
            event(START, "epoch_start", epoch_num=0),
            event(START + 10, "eval_start", epoch_num=320 * scale),
            event(START + 15, "eval_stop", epoch_num=320 * scale),
            event(START + 25, "eval_start", epoch_num=640 * scale),
            event(START + 30, "eval_stop", epoch_num=640 * scale),
            event(START + 31, "epoch_start", epoch_num=2),
            event(START + 41, "eval_start", epoch_num=960 * scale),
        ]

    assert logged(*lines(1)).progress == pytest.approx(32)
    assert logged(*lines(1 / 1000), benchmark="rgat", train_samples=1000).progress == pytest.approx(32)
    assert logged(*lines(1 / 1000), benchmark="rgat").progress is None


def test_an_epoch_of_detection_is_its_images_and_not_train_samples() -> None:
    run = logged(
        event(START, "epoch_start", epoch_num=0),
        event(START + 100, "epoch_stop", epoch_num=0),
        benchmark="retinanet",
        train_samples=4572,
    )
    assert run.progress == pytest.approx(11_703.01)


def test_an_epoch_of_resnet_is_its_train_samples() -> None:
    lines = (event(START, "epoch_start", epoch_num=1), event(START + 20, "epoch_stop", epoch_num=1))
    assert logged(*lines, benchmark="resnet", train_samples=1_281_167).progress == pytest.approx(64_058.35)
    assert logged(*lines, benchmark="resnet").progress is None


@pytest.mark.parametrize("count", [168, 1])
def test_blocks_of_unet3d_count_samples_or_epochs(count: int) -> None:
    run = logged(
        event(START, "block_start", first_epoch_num=count),
        event(START + 10, "block_stop", first_epoch_num=count),
        event(START + 12, "block_start", first_epoch_num=count * 21),
        benchmark="unet3d",
        train_samples=168,
    )
    assert run.progress == pytest.approx(336)


def blocks(*seconds: float) -> LoggedRun:
    lines, now = [], START
    for number, each in enumerate(seconds):
        lines.append(event(now, "block_start", samples_count=320 * number))
        now += each
        lines.append(event(now, "block_stop", samples_count=320 * (number + 1)))
    return logged(*lines, benchmark="other")


def test_stalls_do_not_move_progress_and_blocks_without_length_prove_nothing() -> None:
    assert blocks(30, 10, 10, 10, 40).progress == pytest.approx(32)
    assert blocks(10, 0.1, 0.1, 10, 0.1, 0.1).progress is None
    assert blocks(10, 10, 10, 0.1).progress == pytest.approx(32)


def test_blocks_of_gpt3_count_tokens() -> None:
    run = logged(
        event(START, "block_start", epoch_count=2048 * 320, first_epoch_num=0),
        event(START + 10, "block_stop", first_epoch_num=0),
        benchmark="gpt3",
    )
    assert run.progress == pytest.approx(32)


def test_step_times_times_batch_are_proved() -> None:
    rate = rate_of(read_log(log(step_s=0.5, batch=8), "a.txt"), WORKERS)
    assert (rate.value, rate.reason) == (pytest.approx(16), "")


def test_the_first_step_time_is_warm_up() -> None:
    times = [event(START + at, "tracked_stats", {"train_step_time": s}) for at, s in ((1, 9.0), (2, 0.5), (3, 0.5))]
    blocks = [event(START, "block_start", samples_count=0), event(START + 5, "block_stop", samples_count=80)]
    assert rate_of(logged(*blocks, *times, batch=8, benchmark="other"), WORKERS).value == pytest.approx(16)


@given(st.floats(0.01, 100), st.integers(1, 10_000), st.integers(2, 10_000), st.floats(0.8, 1.25))
def test_a_figure_of_one_device_is_never_proved(step_s: float, batch: int, workers: int, error: float) -> None:
    true = batch / step_s
    data = log(step_s=step_s, batch=batch, logged="throughput", figure=true / workers * error)
    rate = rate_of(read_log(data, "a.txt"), workers)
    assert rate.value is None
    assert rate.figure == pytest.approx(true / workers * error)


@given(st.floats(0.01, 100), st.integers(1, 10_000), st.floats(0.8, 1.25))
def test_a_figure_of_all_devices_is_proved(step_s: float, batch: int, error: float) -> None:
    data = log(step_s=step_s, batch=batch, logged="throughput", figure=batch / step_s * error)
    assert rate_of(read_log(data, "a.txt"), WORKERS).value == pytest.approx(batch / step_s * error)


def test_the_reason_names_what_the_figure_is() -> None:
    refused = {
        "one device": log(logged="throughput", figure=2.0),
        "milliseconds": log(figure=500.0),
        "micro-step": log(figure=0.5 / 4, accumulation=4),
        "a third": log(figure=0.5 / 4),
    }
    for word, data in refused.items():
        rate = rate_of(read_log(data, "a.txt"), WORKERS)
        assert rate.value is None
        assert word in rate.reason


@given(st.floats(0.01, 100), st.integers(2, 512), st.floats(0.8, 1.25))
def test_a_micro_step_or_milliseconds_are_never_proved(step_s: float, accumulation: int, error: float) -> None:
    for wrong in (step_s / accumulation, step_s * 1000):
        run = read_log(log(step_s=step_s, figure=wrong * error, accumulation=accumulation), "a.txt")
        assert rate_of(run, WORKERS).value is None


def test_without_samples_between_events_nothing_is_proved() -> None:
    run = logged(event(START + 1, "tracked_stats", {"train_step_time": 0.5}), benchmark="other")
    assert rate_of(run, WORKERS).value is None
    nothing = rate_of(read_log(log(logged=""), "a.txt"), WORKERS)
    assert (nothing.figure, nothing.value, bool(nothing.reason)) == (None, None, True)


def test_a_throughput_below_progress_includes_evaluation() -> None:
    rate = rate_of(read_log(log(logged="throughput", figure=14.0), "a.txt"), WORKERS)
    assert rate.value == 14.0
    assert "evaluation" in rate.basis
