"""Benchmarks of collectives are not pooled, and wrong sums are no result; shapes are nccl-tests', numbers ours."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.bundle.open import open_bundles
from scalecurve.cli import cli
from scalecurve_importing.columns import Statements
from scalecurve_importing.compose import Composed
from scalecurve_importing.import_bundle import import_bundle
from scalecurve_importing.reading import SourceError
from tests.importing.test_collective_files import printed, read, report

NETWORK = "node-0:9:9 [0] NCCL INFO NET/IB : No device found.\nnode-0:9:9 [0] NCCL INFO Using network Socket\n"


def imported(folder: Path, *texts: str, **facts: str) -> Composed:
    sources = [folder / f"{at}.txt" for at in range(len(texts))]
    for source, text in zip(sources, texts, strict=True):
        source.write_text(text)
    return import_bundle(sources, folder / "out", statements=Statements(facts))


def run(*arguments: object) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    return result.stdout + result.stderr


def of_type(name: str) -> str:
    return printed().replace("  float  sum", f"  {name}  sum")


WRONG = {
    "every element": printed().replace("  0  ", "  19  ").replace("  0\n", "  19\n").replace(": 0 OK", ": 6 FAILED"),
    "one result": printed().replace("  0\n", "  3\n", 1),
    "the verdict alone": printed().replace("values : 0 OK", "values : 2 FAILED"),
    "JSON": json.dumps(report()).replace('"nwrong": 0.0', '"nwrong": 5.0', 1),
    "JSON's verdict": json.dumps({**report(), "out_of_bounds": {"count": 4, "okay": "false"}}),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_sums_are_no_result_and_every_verb_says_why(tmp_path: Path, name: str) -> None:
    (note,) = imported(tmp_path, WRONG[name]).notes
    assert "sums are wrong" in note or "FAILED" in note or "out_of_bounds" in note
    bundle, why = tmp_path / "out", note.removeprefix("0.txt: ")
    run("report", bundle, "--out", tmp_path / "report", "--format", "md")
    lines = [line for line in (tmp_path / "report" / "report.md").read_text().splitlines() if line]
    assert lines[1].startswith(f"> Nothing measured: 1 of 1 trial is Invalid: WrongMath ({why})")
    assert "GB/s" not in "".join(lines[:4])
    for verb in ("fit", "recommend", "allreduce"):
        said = run(verb, bundle)
        assert f"WrongMath ({why})" in said, said


def alone(hosts: Sequence[str], gpus: int, *, mixed: bool) -> str:
    """Programs of one process each, one after another or line by line."""
    outputs = [printed(1, gpus).replace("node-0", host).replace("Pid   40", f"Pid   4{at}").splitlines()
               for at, host in enumerate(hosts)]  # fmt: skip
    lines = [line for group in (zip(*outputs, strict=True) if mixed else outputs) for line in group]
    return "\n".join(lines)


BOTH = alone(["a", "b"], 2, mixed=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (alone(["a", "b"], 1, mixed=True), "2 programs of 1 rank each"),
        (alone(["a", "b"], 1, mixed=False), "an all-reduce over 1 rank is none"),
        (alone(["a", "a", "a"], 4, mixed=True), "3 programs of 4 ranks each"),
        ("\n".join(f"[1,{at % 2}]<stdout>:{line}" for at, line in enumerate(BOTH.split("\n"))),
         "2 programs of 2 ranks each"),
        ("\n".join(f"{at}: {line}" for at in (0, 1) for line in printed(1, 4).split("\n")), "rank 0, rank 1"),
        (printed(1, 1), "an all-reduce over 1 rank is none"),
    ],
    ids=["mixed", "one after another", "three of four", "tagged", "labeled", "one"],
)  # fmt: skip
def test_programs_that_ran_alone_are_no_all_reduce(tmp_path: Path, text: str, said: str) -> None:
    for facts in ({}, {"workers": "2"}):
        with pytest.raises(SourceError) as refused:
            imported(tmp_path, text, **facts)
        assert said in str(refused.value) or "contradicts" in str(refused.value)
    assert "without MPI" in str(refused.value) or "contradicts" in str(refused.value)


def test_two_tests_in_one_output_are_two_runs(tmp_path: Path) -> None:
    assert len(imported(tmp_path, printed() + printed()).records) == 2


def test_data_types_are_an_axis(tmp_path: Path) -> None:
    composed = imported(tmp_path, of_type("half"), of_type("bfloat16") + printed())
    assert sorted(record.trial.point.series for record in composed.records) == [
        f"strong sizes.dtype={name}" for name in ("bfloat16", "float16", "float32")
    ]
    mixed = printed().replace("  float  sum", "  half  sum", 1)
    _, readings = read(tmp_path, mixed, "mixed.txt")
    assert [len(reading.allreduce) for reading in readings] == [2, 4]


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        (of_type("float"), printed().replace("float  sum", "float  max"), "operation (sum, max)"),
        (of_type("float"), of_type("int8"), "data type (float, int8)"),
        ("# nccl-tests version 2.18.0 nccl-headers=22907 nccl-library=22907\n" + printed(),
         "# nccl-tests version 2.18.0 nccl-headers=22105 nccl-library=22105\n" + printed(),
         "NCCL version (2.29.7, 2.21.5)"),
        (printed() + "node-0:9:9 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n", json.dumps(report()),
         "NCCL version (2.21.5, 2.28.3)"),
        (printed(2) + NETWORK, printed(4) + NETWORK.replace("Socket", "IB"),
         "network (Socket, IB)"),
    ],
)  # fmt: skip
def test_other_benchmarks_are_no_points_of_one_curve(tmp_path: Path, one: str, other: str, name: str) -> None:
    with pytest.raises(SourceError) as refused:
        imported(tmp_path, one, other)
    assert f"the benchmarks differ in {name}, and a curve has one" in str(refused.value)


def test_what_the_user_states_of_a_benchmark_tells_it_apart(tmp_path: Path) -> None:
    sources = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for source in sources:
        source.write_text(printed())
    stated = [Statements({"network": name}) for name in ("EFA", "RoCE")]
    with pytest.raises(SourceError, match=r"differ in network \(EFA, RoCE\)"):
        import_bundle(sources, tmp_path / "out", statements=stated)


@pytest.mark.parametrize("facts", [{"workers": "8"}, {"nodes": "2"}, {"workers_per_node": "2"}])
def test_devices_in_the_output_are_not_contradicted(tmp_path: Path, facts: dict[str, str]) -> None:
    with pytest.raises(SourceError, match=r"contradicts it|are not 4 workers"):
        imported(tmp_path, printed(), **facts)


def test_network_and_version_are_named(tmp_path: Path) -> None:
    text = "# nccl-tests version 2.18.0 nccl-headers=22907 nccl-library=22907\n" + printed(2)
    (record,) = imported(tmp_path, text.replace("# Out", f"{NETWORK}# Out")).records
    assert record.message.startswith("NCCL 2.29.7; NCCL used network Socket (NET/IB: no device found); ")
    assert "sockets carried the collectives at 8 workers (NET/IB: no device found)" in run(
        "allreduce", tmp_path / "out"
    )


def test_precision_is_what_the_source_states(tmp_path: Path) -> None:
    imported(tmp_path, printed())
    (tmp_path / "t.csv").write_text("gpus,img/s,mode,dtype\n2,9,weak,bf16\n")
    (tmp_path / "u.csv").write_text("gpus,img/s,mode\n2,9,weak\n")
    for name in ("t", "u"):
        import_bundle([tmp_path / f"{name}.csv"], tmp_path / name)
    for bundle, said in (("out", None), ("t", "bf16"), ("u", None)):
        (record,) = [trial.record for trial in open_bundles([tmp_path / bundle])[0].trials if trial.record]
        assert record.precision == said
        run("report", tmp_path / bundle, "--out", tmp_path / "report" / bundle, "--format", "md")
        assert "fp32" not in (tmp_path / "report" / bundle / "report.md").read_text()
