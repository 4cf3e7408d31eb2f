"""The corpus that comes with ScaleCurve: its license lets it, and its times to train are those that were printed."""

import pytest

from scalecurve_corpus.corpus_file import load_shipped

TIMES = {
    # NVIDIA's blog on MLPerf Training 5.0: the fastest of three benchmarks
    ("NVIDIA", "eos-dfw_n1024_ngc25.01_nemo", "llama31_405b"): "20.8",
    ("NVIDIA", "tyche_ngpu512_ngc25.04_nemo", "llama2_70b_lora"): "0.56",
    ("NVIDIA", "tyche_ngpu512_ngc25.04_nemo", "stable_diffusion"): "1.04",
    # AMD's blogs on 5.0 and 5.1
    ("NVIDIA", "tyche_ngpu8_ngc25.04_nemo", "llama2_70b_lora"): "11.145",
    ("AMD", "MI325X_EPYC_9575F_pytorch", "llama2_70b_lora"): "22.04",
    ("AMD", "MI300X_EPYC_9575F_pytorch", "llama2_70b_lora"): "29.25",
    ("Supermicro", "AS-4125GS-TNHR2-LCC", "llama2_70b_lora"): "23.08",
}


@pytest.mark.parametrize("key", TIMES, ids="/".join)
def test_times_to_train_are_those_that_were_printed(key: tuple[str, str, str]) -> None:
    points = {(point.submitter, point.system, point.benchmark): point for point in load_shipped().points}
    minutes = points[key].minutes_to_target
    assert f"{minutes:.{len(TIMES[key].partition('.')[2])}f}" == TIMES[key]


def test_its_source_and_license_are_stated() -> None:
    sources = load_shipped().sources
    assert [(source.name, source.license) for source in sources] == [
        ("mlperf-4.0", "Apache-2.0"),
        ("mlperf-5.0", "Apache-2.0"),
        ("llm-foundry", "Apache-2.0"),
        ("torchtitan-benchmarks", "BSD-3-Clause"),
    ]
    for source in sources:
        assert source.url.startswith("https://")
        assert "commit" in source.retrieved


def test_every_point_is_consistent() -> None:
    for point in load_shipped().points:
        assert point.workers == point.nodes * point.devices_per_node
        assert bool(point.unit) != bool(point.reason)
        assert bool(point.unit) == bool(point.rates) == bool(point.basis)
        if not point.source.startswith("mlperf"):
            assert len(point.runs) == 1
            assert point.parameters
            continue
        starts = [run.started_at for run in point.runs]
        assert None not in starts
        assert starts == sorted(starts, key=lambda start: start or 0)
        for run in point.runs:
            assert run.rate is None or run.relative is None
            assert run.rate is None or run.progress is None or 0.75 < run.rate / run.progress < 4 / 3


def test_no_progress_is_of_more_samples_than_a_run_trains() -> None:
    runs = [run for point in load_shipped().points if point.benchmark == "llama2_70b_lora" for run in point.runs]
    trained = [run.progress * run.minutes * 60 for run in runs if run.progress and run.minutes]
    assert len(trained) > 700
    assert max(trained) < 10 * 3901, "ten epochs; evaluation is in the minutes and not in progress"


@pytest.mark.parametrize(
    ("model", "device", "per_device"),
    [
        # rows of their pages, read by eye
        ("mpt-7b", "H100", {512: 9670, 256: 10119, 128: 10475}),
        ("llama3.1-8b", "H200", {32: 10938, 64: 10753}),
    ],
)
def test_rates_are_those_of_the_published_tables(model: str, device: str, per_device: dict[int, int]) -> None:
    points = [p for p in load_shipped().points if (p.benchmark, p.device) == (model, device)]
    found = {p.workers: int(p.rates[0] / p.workers) for p in points if p.workers in per_device}
    assert found == per_device


def test_figures_of_one_device_have_no_unit() -> None:
    refused = [point for point in load_shipped().points if "one device" in point.reason]
    assert {point.benchmark for point in refused} == {"retinanet", "ssd"}
    for point in refused:
        for run in point.runs:
            assert run.relative is not None
            assert run.progress is not None
            assert run.relative * point.workers == pytest.approx(run.progress, rel=0.03)
