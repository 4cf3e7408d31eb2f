from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.networks.window import adaptive_window, extent, padding_of


@given(st.integers(1, 200), st.integers(1, 11), st.integers(1, 5), st.integers(0, 5))
def test_extents_are_those_of_every_window_placed(size, kernel, stride, pad):
    padded = size + 2 * pad
    placed = len(range(0, padded - kernel + 1, stride)) if padded >= kernel else 0
    assert extent((pad, pad), 0, size, kernel, stride) == placed
    starts = [start for start in range(0, padded + stride, stride) if start == 0 or start < padded - kernel + stride]
    inside = [start for start in starts if start < size + pad]
    if padded >= kernel and pad < kernel:
        assert extent((pad, pad), 0, size, kernel, stride, ceil=True) == len(inside)


@given(st.integers(1, 200), st.integers(1, 11), st.integers(1, 5))
def test_same_padding_gives_the_size_over_the_stride(size, kernel, stride):
    out = extent("same", 0, size, kernel, stride)
    assert out == -(-size // stride)
    assert padding_of("same", 0, size, kernel, stride) == ((out - 1) * stride + kernel - size) // 2
    assert padding_of("valid", 0, size, kernel, stride) == 0


def test_adaptive_windows():
    assert adaptive_window(7, 1) == (7, 7)
    assert adaptive_window(13, 6) == (3, 2)
    assert adaptive_window(4, 7) == (1, 1)
