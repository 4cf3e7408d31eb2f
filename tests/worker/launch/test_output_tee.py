from __future__ import annotations

import os
import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.record.log_lines import frame, unframe
from scalecurve_worker.launch.output_tee import OutputTee
from tests.waiting import PATIENCE_S


def passed(pieces: list[bytes], secrets: tuple[str, ...] = ()) -> tuple[bytes, list[str]]:
    """What comes out, and what is kept, of output that comes in such pieces."""
    read_end, write_end = os.pipe()
    with tempfile.TemporaryFile() as target:
        copy = OutputTee(read_end, target.fileno(), secrets)
        copy.start()
        for piece in pieces:
            os.write(write_end, piece)
        os.close(write_end)
        copy.join(PATIENCE_S)
        assert not copy.is_alive()
        target.seek(0)
        return target.read(), copy.marked


@settings(max_examples=40)
@given(st.binary(max_size=9000), st.data())
def test_all_comes_out_and_the_record_is_kept(payload: bytes, data: st.DataObject) -> None:
    text = "10 %\r20 %\n" + "".join(f"{line}\n" for line in frame(payload)) + "scalecurve-failure {}\nbye"
    whole = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    out, kept = passed([piece for piece in pieces if piece])
    assert out == whole
    assert unframe(kept) == payload
    assert kept[-1] == "scalecurve-failure {}"


@given(st.lists(st.sampled_from([b"a", b"b", b"canary", b"ana", b"\n", b"can", b"ary"]), max_size=40), st.data())
@settings(max_examples=60)
def test_no_secret_comes_out_however_it_is_cut(words: list[bytes], data: st.DataObject) -> None:
    text = b"".join(words)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    out, _ = passed([piece for piece in pieces if piece], ("canary",))
    assert out == text.replace(b"canary", b"***")


def test_a_line_that_never_ends_is_not_kept() -> None:
    out, kept = passed([b"x" * 60_000] * 4)
    assert (len(out), kept) == (240_000, [])
