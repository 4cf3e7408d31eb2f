import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.networks import NetworkError
from scalecurve_models.networks.inception import Filters, analyze_inception


def test_the_lectures_inception_module():
    analysis = analyze_inception((32, 32, 256))
    assert analysis.outputs() == ((32, 32, 672), (32, 32, 480))
    assert analysis.flops() == (1_115_684_864, 354_418_688)
    assert analysis.saving() == pytest.approx(0.682, abs=5e-4)
    assert analyze_inception((28, 28, 256)).flops() == (854_196_224, 271_351_808)


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 64)),
    st.builds(Filters, *[st.integers(1, 64)] * 6),
)
def test_inception_by_its_formula(shape, f):
    height, width, channels = shape
    area = height * width
    naive = area * channels * (f.one + 9 * f.three + 25 * f.five)
    reduced = area * (
        channels * (f.one + f.reduce_three + f.reduce_five + f.project)
        + 9 * f.reduce_three * f.three
        + 25 * f.reduce_five * f.five
    )
    analysis = analyze_inception(shape, f)
    assert analysis.flops() == (naive, reduced)
    assert analysis.outputs()[0] == (height, width, f.one + f.three + f.five + channels)
    assert analysis.outputs()[1] == (height, width, f.one + f.three + f.five + f.project)


@pytest.mark.parametrize(("shape", "filters"), [((32, 32), None), ((0, 32, 3), None), ((8, 8, 8), Filters(five=-1))])
def test_modules_that_cannot_be(shape, filters):
    with pytest.raises(NetworkError):
        analyze_inception(shape, filters)
