from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from scalecurve_worker.integrations.instrument.samples import StepSamples


def batches(samples: int, batch: int) -> list[int]:
    """The batches of an epoch; the last may be smaller."""
    return [min(batch, samples - at) for at in range(0, samples, batch)]


def ahead(sizes: list[int], by: int, counter: StepSamples) -> Iterator[int]:
    """A loader's batches, of which so many are taken before they are trained on."""
    waiting: list[int] = []
    for size in sizes:
        counter.take(size)
        waiting.append(size)
        if len(waiting) > by:
            yield waiting.pop(0)
    yield from waiting


@given(
    samples=st.integers(1, 40),
    batch=st.integers(1, 7),
    by=st.integers(0, 3),
    accumulate=st.integers(1, 4),
    epochs=st.integers(2, 5),
    passes=st.booleans(),
    sized=st.booleans(),
)
def test_a_step_has_the_samples_it_trained_on(
    samples: int, batch: int, by: int, accumulate: int, epochs: int, passes: bool, sized: bool
) -> None:
    """Any loop over epochs that counts from its first batch; without forward passes to see, none may be ahead."""
    counter, trained = StepSamples(), 0
    step = 0
    for _ in range(epochs):
        for size in ahead(batches(samples, batch), by if passes else 0, counter):
            if passes:
                counter.run(size if sized else None)
            trained += size
            step += 1
            if step % accumulate == 0:
                assert counter.end_step() == trained
                trained = 0


def test_a_batch_ahead_when_counting_begins() -> None:
    """One batch was taken, and not trained on, before anything was counted."""
    counter, first = StepSamples(), True
    for sizes in ([4, 4, 4, 4], [4, 4, 4, 2], [4, 4, 4, 2]):
        for size in ahead(sizes, 1, counter):
            counter.run(size)
            assert first or counter.end_step() == size
            if first:
                counter.forget()
            first = False


def test_two_passes_of_a_batch() -> None:
    counter = StepSamples()
    for step in range(40):
        counter.take(4)
        counter.run(4)
        counter.run(4)
        told = counter.end_step()
        assert told == 4 or step < 20


def test_passes_that_are_not_seen() -> None:
    counter = StepSamples()
    for _ in range(20):
        counter.take(4)
        assert counter.end_step() == 4


def test_no_loader() -> None:
    counter = StepSamples()
    for _ in range(3):
        counter.run(6)
        counter.run(6)
        assert counter.end_step() == 12
    counter.run(None)
    assert counter.end_step() is None


def test_a_look_at_the_first_batch() -> None:
    """As PyTorch's DDP tutorial does before every epoch."""
    counter = StepSamples()
    for _ in range(5):
        counter.take(4, source=1)
        for _ in range(3):
            counter.drop(1)
            counter.take(4, source=1)
            counter.run(4)
            assert counter.end_step() == 4
