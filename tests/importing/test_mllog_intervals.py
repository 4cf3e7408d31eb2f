"""What the events of MLPerf's log count: how far training came, or how long a block is; samples, tokens or epochs."""

import pytest

from scalecurve_importing.mllog_intervals import LoggedEvent, epoch_intervals, training_intervals

BATCH, SECONDS, BLOCK = 8, 10.0, 320.0


def log(
    starts: list[float | None],
    stops: list[float | None],
    evaluations: list[float | None],
    field: str = "samples_count",
    evaluated: str = "samples_count",
) -> list[LoggedEvent]:
    """Blocks of 10 s with an evaluation of 3 s after each; None for a count that an event does not state."""
    events = []
    for number, counts in enumerate(zip(starts, stops, evaluations, strict=True)):
        begin = 13.0 * number
        times = (begin, begin + SECONDS, begin + SECONDS, begin + 13)
        for at_s, key, count in zip(
            times, ("block_start", "block_stop", "eval_start", "eval_stop"), (*counts, counts[2]), strict=True
        ):
            name = evaluated if key.startswith("eval") else field
            events.append(LoggedEvent(at_s, key, None, {} if count is None else {name: count}))
    return events


NOTHING: list[float | None] = [None] * 3
UP_TO, AFTER, LENGTH = [0.0, 320.0, 640.0], [320.0, 640.0, 960.0], [320.0] * 3
FORMS = {
    "every event counts up": (UP_TO, AFTER, AFTER),
    "the stop repeats the start": (UP_TO, UP_TO, AFTER),
    "only starts and stops count": (UP_TO, AFTER, NOTHING),
    "the start has the length": (LENGTH, NOTHING, AFTER),
    "start and stop have the length": (LENGTH, LENGTH, AFTER),
    "the start has the length, the stop counts up": (LENGTH, AFTER, AFTER),
    "only lengths": (LENGTH, NOTHING, NOTHING),
    "only lengths, twice": (LENGTH, LENGTH, NOTHING),
    "the start counts steps": ([0.0, 40.0, 80.0], AFTER, AFTER),
    "the start does not count": (NOTHING, AFTER, AFTER),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_log_has_the_same_blocks(form: str) -> None:
    assert training_intervals(log(*FORMS[form]), "llama2_70b_lora", 1e9) == [(BLOCK, SECONDS)] * 3


def test_blocks_of_unequal_length() -> None:
    events = log([1536.0, 384.0, 384.0], NOTHING, [1536.0, 1920.0, 2304.0])
    assert [samples for samples, _ in training_intervals(events, "llama2_70b_lora", None)] == [1536, 384, 384]


def test_a_log_with_one_block() -> None:
    for starts in ([0.0], [320.0]):
        assert training_intervals(log(starts, [None], [320.0]), "", None) == [(BLOCK, SECONDS)]


def test_counts_within_a_block_do_not_end_it() -> None:
    events = log(UP_TO, UP_TO, AFTER)
    events.insert(1, LoggedEvent(5.0, "train_loss", 2.0, {"samples_count": 160}))
    assert training_intervals(events, "", None) == [(BLOCK, SECONDS)] * 3


@pytest.mark.parametrize("value", [-1, float("nan"), True, "320", None])
def test_what_is_no_count_is_not_one(value: object) -> None:
    assert LoggedEvent(0, "block_start", None, {"samples_count": value}).count("samples_count") is None


def test_tokens_of_gpt3_and_images_of_detection() -> None:
    tokens = log([2048 * BLOCK] * 3, NOTHING, NOTHING, "epoch_count")
    assert training_intervals(tokens, "gpt3", 1e9) == [(BLOCK, SECONDS)] * 3
    epochs = [LoggedEvent(0, "epoch_start", None, {}), LoggedEvent(100, "epoch_stop", None, {})]
    assert training_intervals(epochs, "retinanet", 4572) == [(1_170_301, 100)]


@pytest.mark.parametrize("epoch", [1.0, 168.0])
def test_blocks_of_unet3d_count_from_the_first_epoch(epoch: float) -> None:
    starts = [epoch * (1 + 20 * number) for number in range(3)]
    events = log(list(starts), list(starts), NOTHING, "first_epoch_num")
    assert training_intervals(events, "unet3d", 168.0) == [(20 * 168, SECONDS)] * 2


def test_epochs_are_not_guessed() -> None:
    blocks = log(NOTHING, NOTHING, NOTHING)
    assert training_intervals(blocks, "mine", 400) == epoch_intervals(blocks, "mine", 400) == []
    stated = log([2.0] * 3, NOTHING, NOTHING, "epoch_count")
    assert epoch_intervals(stated, "mine", 400) == [(800, SECONDS)] * 3
    assert epoch_intervals(stated, "gpt3", 400) == []
    assert epoch_intervals(stated, "mine", None) == []
