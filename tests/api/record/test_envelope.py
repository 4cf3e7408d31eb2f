from __future__ import annotations

import contextlib
import hashlib
import io
import random
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.record import envelope, journal, log_lines
from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.envelope import EnvelopeError, digest, seal, unseal, unseal_ranks
from scalecurve_api.record.extremes import MEDIAN, SLOWEST
from scalecurve_api.record.journal import StepRow, pack_row, write_header
from scalecurve_api.record.log_lines import frame, unframe
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import DeviceSamples, RankRecord
from scalecurve_api.record.tables import EXTREMES_FILE, STEP_COLUMNS
from scalecurve_api.spec.trial import TrialPhase
from tests.api.rank_records import BEGIN, rank_record, trial

TWO = trial()
RANKS = {rank: rank_record(rank, TWO) for rank in range(2)}
LARGE = 1 << 23


def steps(rank: int, durations: list[int], first: int = 0) -> bytes:
    """A journal of steps that follow one another."""
    file = io.BytesIO()
    write_header(file, rank)
    at = BEGIN
    for step, duration in enumerate(durations, first):
        file.write(pack_row(StepRow(step, 0, at, duration, 8 + rank, 0.5)))
        at += duration
    return file.getvalue()


def rows(data: bytes) -> list[StepRow]:
    return [StepRow(*fields) for fields in journal.ROW.iter_unpack(journal.body(data))]


def test_what_is_sealed_is_unsealed() -> None:
    journals = {0: steps(0, [100, 120, 90]), 1: steps(1, [110, 80, 95])}
    payload = seal("weak-2-r1", 3, RANKS, journals, LARGE)
    found = unseal(payload)
    assert (found.trial, found.attempt, found.left_out) == ("weak-2-r1", 3, ())
    assert (found.ranks, found.journals) == (RANKS, journals)
    judged = unseal_ranks(payload)
    assert (judged.ranks, judged.journals) == (RANKS, {})
    assert seal("weak-2-r1", 3, dict(reversed(RANKS.items())), journals, LARGE) == payload
    assert digest(payload) == hashlib.sha256(payload).hexdigest()


def test_ranks_that_differ_keep_their_differences() -> None:
    samples = DeviceSamples(count=3, power_w_mean=611.25, throttle_reasons=["thermal"])
    ranks = {
        0: rank_record(0, TWO, device_samples=samples, options={"a": [1, {"b": None}], "ü": "\n"}),
        3: rank_record(3, TWO, parameter_checksum=None, versions={}, windows=[]),
        7: rank_record(7, TWO, device_samples=samples, pod="p", backend="mpi"),
    }
    found = unseal(seal("t", 1, ranks, {}, 0)).ranks
    assert found == ranks
    assert found[0].environment is found[7].environment


def test_nothing_at_all_is_an_envelope_too() -> None:
    payload = seal("", 1, {}, {}, LARGE)
    assert unseal(payload) == envelope.Envelope("", 1, {}, {}, ())
    assert unframe(frame(payload)) == payload


def test_journals_that_do_not_fit_leave_their_slowest_and_median_rank() -> None:
    generator = random.Random(1)
    journals = {rank: steps(rank, [generator.randrange(10**9, 2 * 10**9) for _ in range(300)]) for rank in range(5)}
    whole = len(seal("t", 1, RANKS, journals, LARGE))
    assert unseal(seal("t", 1, RANKS, journals, whole)).journals == journals
    smaller = seal("t", 1, RANKS, journals, whole - 1)
    assert len(smaller) < whole
    found = unseal(smaller)
    said = "step journals of ranks 0-4 (0.0 MB); the slowest and the median rank of every step are kept"
    assert found.left_out == (said,)
    assert found.ranks == RANKS
    assert set(found.journals) == {SLOWEST, MEDIAN}
    by_rank = {rank: rows(data) for rank, data in journals.items()}
    for step, (slowest, median) in enumerate(zip(rows(found.journals[-1]), rows(found.journals[-2]), strict=True)):
        ordered = sorted((by_rank[rank][step] for rank in range(5)), key=lambda row: row.duration_ns)
        assert slowest == ordered[4]
        assert median == ordered[2]
    assert journal.read_rank(found.journals[SLOWEST], "slowest") == 0xFFFFFFFF
    assert journal.read_rank(found.journals[MEDIAN], "median") == 0xFFFFFFFE


def test_records_stay_when_nothing_else_fits() -> None:
    journals = {0: steps(0, [100] * 9), 1: steps(1, [100] * 7, first=1), 4: steps(4, [])}
    found = unseal(seal("t", 1, RANKS, journals, 0))
    assert found.left_out == ("step journals of ranks 0-1, 4 (0.0 MB)",)
    assert (found.ranks, found.journals) == (RANKS, {})


def test_a_record_says_what_was_left_out() -> None:
    generator = random.Random(7)
    journals = {rank: steps(rank, [generator.randrange(10**8, 10**9) for _ in range(300)]) for rank in range(6)}
    found = unseal(seal(TWO.name, 1, RANKS, journals, len(seal(TWO.name, 1, RANKS, journals, LARGE)) - 1))
    outcome = Outcome(engine="kubernetes")
    whole, made = assemble(TWO, RANKS, journals, outcome), assemble(TWO, RANKS, found.journals, outcome, found.left_out)
    assert made.record.left_out == list(found.left_out) != []
    assert (made.record.phase, set(made.tables)) == (TrialPhase.succeeded, {EXTREMES_FILE})
    table = pq.read_table(io.BytesIO(made.tables[EXTREMES_FILE]))
    assert table.column_names == list(STEP_COLUMNS)
    assert table["rank"].to_pylist() == [MEDIAN] * 300 + [SLOWEST] * 300
    # What is said of the slowest rank of every step needs no other rank.
    assert made.record.summary == whole.record.summary
    assert made.record.summary is not None
    assert made.record.summary.step is not None


def test_only_steps_of_every_rank_are_compared() -> None:
    found = envelope.extremes(
        {0: steps(0, [5, 6, 7, 8]), 1: steps(1, [9, 1, 3], first=1), 2: steps(2, [4, 4, 4, 4, 4])}
    )
    assert [(row.step, row.duration_ns, row.samples) for row in rows(found[SLOWEST])] == [
        (1, 9, 9),
        (2, 7, 8),
        (3, 8, 8),
    ]
    assert [(row.step, row.duration_ns) for row in rows(found[MEDIAN])] == [(1, 6), (2, 4), (3, 4)]


def test_4096_ranks_fit_eight_mebibytes() -> None:
    of = trial({"placement/workersPerNode": 8}, workers=8)
    generator = random.Random(2)
    ranks: dict[int, RankRecord] = {}
    for rank in range(4096):
        where = {"host": f"node-{rank // 8}", "pod": f"trial-a1-worker-{rank // 8}", "local_rank": rank % 8}
        times = {"started_ns": BEGIN + generator.randrange(10**9), "ended_ns": BEGIN + generator.randrange(10**12)}
        ranks[rank] = rank_record(rank, of, device=f"GPU-{generator.getrandbits(128):032x}", **where, **times)
    journals = {
        rank: steps(rank, [generator.randrange(10**8, 10**8 + 10**6) for _ in range(5 * 50)]) for rank in range(0, 4096)
    }
    payload = seal("t", 1, ranks, journals, LARGE)
    assert len(payload) <= LARGE
    found = unseal_ranks(payload)
    assert found.ranks == ranks
    assert found.left_out == (
        "step journals of ranks 0-4095 (32.9 MB); the slowest and the median rank of every step are kept",
    )
    assert len(unseal(payload).journals) == 2


def test_lines_keep_below_a_pipes_whole_write() -> None:
    payload = random.Random(3).randbytes(100_000)
    lines = list(frame(payload))
    assert len(lines) == 36
    assert max(len(line.encode()) + 1 for line in lines) < 4096
    assert not any("\n" in line for line in lines)
    assert unframe(lines) == payload


noise = st.text(max_size=30).filter(lambda text: log_lines.MARK not in text)


@settings(max_examples=60)
@given(st.binary(max_size=20_000), st.data())
def test_a_frame_is_found_among_the_lines_of_others(payload: bytes, data: st.DataObject) -> None:
    log: list[str] = data.draw(st.lists(noise, max_size=3))
    for line in frame(payload):
        # An unfinished line of another process may stand before ours, and a carriage return behind it.
        log.append(data.draw(noise) + line + data.draw(st.sampled_from(["", "\r", "\n", " \r\n"])))
        log += data.draw(st.lists(noise, max_size=2))
    assert unframe(iter(log)) == payload


@settings(max_examples=60)
@given(st.binary(min_size=1, max_size=20_000), st.data())
def test_a_torn_frame_is_refused(payload: bytes, data: st.DataObject) -> None:
    lines = list(frame(payload))
    lost = data.draw(st.integers(0, len(lines) - 1))
    with pytest.raises(EnvelopeError, match=r"missing|lacks part"):
        unframe(lines[:lost] + lines[lost + 1 :])
    at = data.draw(st.integers(0, len(lines[lost]) - 1))
    torn = lines[lost][:at]
    with pytest.raises(EnvelopeError):
        unframe([*lines[:lost], torn, *lines[lost + 1 :]])


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=8000), min_size=1, max_size=4), st.booleans())
def test_the_last_whole_frame_counts(payloads: list[bytes], cut: bool) -> None:
    log = [line for payload in payloads for line in frame(payload)]
    if cut:
        log += list(frame(b"one more" * 900))[:-1]
    assert unframe(log) == payloads[-1]


def test_frames_that_interleave_are_told_apart() -> None:
    one, two = random.Random(4).randbytes(9000), random.Random(5).randbytes(9000)
    log = [line for pair in zip(frame(one), frame(two), strict=True) for line in pair]
    assert unframe(log) == two
    twice = [line for line in frame(one) for _ in range(2)]
    assert unframe(twice) == one


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [], "no record in the log"),
        (lambda lines: ["loss 0.5", log_lines.MARK, f"{log_lines.MARK} begin soon"], "no record in the log"),
        (lambda lines: lines[1:], "the record's first line is missing: the log was cut at its beginning"),
        (lambda lines: lines[:-1], "the record's last line is missing: 12 of 12 parts were read"),
        (lambda lines: lines[:5], "the record's last line is missing: 4 of 12 parts were read"),
        (lambda lines: lines[:1] + lines[2:], "the record lacks part 0 of 12"),
        (lambda lines: lines[:2] + lines[-1:], "the record lacks part 1, 2, 3, 4, 5 and 6 more of 12"),
        (lambda lines: [*lines[:3], lines[3][:-1] + "?", *lines[4:]], "the record lacks part 2 of 12"),
        (lambda lines: [*lines[:3], lines[3][:-8], *lines[4:]], "bytes, expected 35000"),
        (lambda lines: [*lines[:3], lines[3][:-8] + "AAAAAAAA", *lines[4:]], "sha256 is .*, expected"),
    ],
)
def test_what_is_wrong_with_a_frame_is_said(change, said: str) -> None:  # type: ignore[no-untyped-def]
    lines = list(frame(random.Random(6).randbytes(35_000)))
    with pytest.raises(EnvelopeError, match=said):
        unframe(change(lines))


GOOD = seal("t", 1, RANKS, {0: steps(0, [1, 2]), 1: steps(1, [3, 4])}, LARGE)


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "payload: 0 bytes, not a record"),
        (b"\x1f\x8b" + bytes(40), r"payload: 42 bytes, not a record \(begins with b'\\x1f\\x8b"),
        (GOOD[:40], "head: truncated"),
        (GOOD[:-1], "journal of rank 1: truncated"),
        (GOOD + b"x", "payload: .* bytes, its head announces"),
        (GOOD[:20] + b"\xff\xff" + GOOD[22:], "head: "),
    ],
)
def test_a_payload_that_is_none_is_refused(payload: bytes, said: str) -> None:
    with pytest.raises(EnvelopeError, match=said):
        unseal(payload)


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_a_damaged_payload_never_raises_anything_else(at: int, flip: int) -> None:
    """The bits that fill up the last byte of a deflate stream mean nothing, and any value of theirs is good."""
    damaged = GOOD[:at] + bytes([GOOD[at] ^ flip]) + GOOD[at + 1 :]
    with contextlib.suppress(EnvelopeError):
        assert unseal(damaged) == unseal(GOOD)


def test_a_bomb_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelope, "_HEAD_LIMIT", 100)
    with pytest.raises(EnvelopeError, match="head: larger than 100 bytes"):
        unseal_ranks(GOOD)


def test_journals_that_would_fill_a_readers_memory_are_neither_sealed_nor_read(monkeypatch: pytest.MonkeyPatch) -> None:
    journals = {0: steps(0, [5] * 300), 1: steps(1, [5] * 300)}
    payload = seal("t", 1, RANKS, journals, LARGE)
    monkeypatch.setattr(envelope, "_JOURNALS_LIMIT", 2 * len(journals[0]) - 1)
    with pytest.raises(EnvelopeError, match="head: journals of more than"):
        unseal(payload)
    found = unseal(seal("t", 1, RANKS, {**journals, 2: steps(2, [])}, LARGE))
    assert set(found.journals) == {SLOWEST, MEDIAN} or not found.journals
    assert found.left_out


@settings(max_examples=40)
@given(st.dictionaries(st.integers(0, 4095), st.binary(max_size=200).map(lambda tail: steps(0, []) + tail), max_size=5))
def test_any_journal_comes_back_byte_for_byte(journals: dict[int, bytes]) -> None:
    assert unseal(seal("t", 1, {}, journals, LARGE)).journals == journals


def test_reading_loads_nothing_heavy() -> None:
    code = (
        "import sys; from scalecurve_api.record import envelope, log_lines, termination; "
        "envelope.unseal(log_lines.unframe(sys.stdin)); "
        "print(*sorted({'numpy', 'pyarrow', 'torch', 'pandas'} & set(sys.modules)))"
    )
    text = "\n".join(frame(GOOD))
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
