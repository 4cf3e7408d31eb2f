"""What launchers, pods and collectors put before a line goes; the rank stays. Shapes are the tools', words ours."""

from pathlib import Path

import pytest

from scalecurve_importing.columns import Statements
from scalecurve_importing.import_bundle import importer_of
from scalecurve_importing.printed_lines import parse_printed_lines
from tests.importing.test_collective_files import printed

PREFIXES = {
    "mpirun --tag-output": ("[1,3]<stdout>:", "rank 3"),
    "mpirun 5": ("[prterun-login-7@1,3]<stdout>: ", "rank 3"),
    "mpirun --timestamp-output": ("Wed Mar  4 10:00:01 2026[1,3]<stderr>:", "rank 3"),
    "srun -l": (" 3: ", "rank 3"),
    "mpiexec -l": ("[3] ", "rank 3"),
    "torchrun": ("[rank3]:", "rank 3"),
    "torchrun --tee": ("[default1]:", "default1"),
    "kubectl logs --timestamps": ("2026-03-04T10:00:01.123456789Z ", ""),
    "kubectl logs --prefix": ("[pod/train-worker-3/trainer] ", "pod/train-worker-3/trainer"),
    "both": ("[pod/w-3/main] 2026-03-04T10:00:01.1+01:00 [rank12]: ", "rank 12"),
    "Ray": ("(RayTrainWorker pid=812, ip=10.0.0.9) ", "RayTrainWorker pid=812, ip=10.0.0.9"),
    "Ray in color": ("\x1b[36m(train_fn pid=812)\x1b[0m ", "train_fn pid=812"),
    "SkyPilot around mpirun": ("(worker1, rank=1, pid=44, ip=10.0.0.9) [1,12]<stdout>:", "rank 12"),
    "a date": ("[2026-03-04 10:00:01,123] ", ""),
    "glog": ("I0304 10:00:01.123456  4711 train.cc:12] ", ""),
    "pdsh": ("node-17.gpu: ", "node-17.gpu"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("name", PREFIXES)
@pytest.mark.parametrize("text", ["#  Rank  0 Pid 12 on host", "iteration 7/ 9 | lm loss: 2"])
def test_a_prefix_goes_and_its_rank_stays(name: str, text: str) -> None:
    prefix, process = PREFIXES[name]
    (line,) = parse_printed_lines(prefix + text)
    assert (line.text, line.process) == (text, process)


@pytest.mark.parametrize(
    "text",
    [
        "10:31:02 begin",
        "Warning: slow",
        "(loss=2.1) rest",
        "[titan] step",
        "   1048576  262144  float",
        "step: 10 loss: 1",
    ],
)
def test_what_is_no_prefix_stays(text: str) -> None:
    assert parse_printed_lines(text)[0].text == text


@pytest.mark.parametrize("name", PREFIXES)
def test_nccl_tests_import_whatever_carried_them(tmp_path: Path, name: str) -> None:
    other = f"{PREFIXES[name][0]}node-0:103:141 [3] NCCL INFO Launch mode Parallel\n"
    text = "Warning: a key was added\n" + other
    text += "".join(f"{PREFIXES[name][0]}{line}\n" for line in printed(2, 4).splitlines())
    (tmp_path / "pod.log").write_text(text)
    form, importer = importer_of(tmp_path / "pod.log")
    (reading,) = importer.read(tmp_path / "pod.log", Statements())
    assert (form, reading.workers, reading.nodes, len(reading.allreduce)) == ("nccl-tests", 8, 2, 6)
