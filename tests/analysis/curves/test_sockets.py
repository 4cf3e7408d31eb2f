"""Sockets in place of a faster network are named as a cause, in runs and in imports."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.bundle.open import open_bundle
from scalecurve.cli import cli
from scalecurve.curves.sockets import socket_lines
from scalecurve.reporting.belief import belief
from scalecurve.reporting.findings import analyze
from scalecurve_api.record.transport import Transport
from scalecurve_api.record.trial_record import TrialRecord
from tests.analysis.synthetic import Truth, experiment, write_bundle

OF = experiment("slow", modes=["weak"], workers=[1, 2], windows=2, steps_per_window=3)
SOCKET = Transport(library="nccl", channels={"NET/Socket": 4}, network="Socket")
IMPORTED = """\
# nccl-tests version 2.18.0 nccl-headers=22907 nccl-library=22907
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#  Rank  0 Group  0 Pid   4000 on     node-0 device  0 [0000:10:00] NVIDIA H100 80GB HBM3
node-0:103:141 [0] NCCL INFO NET/IB : No device found.
node-0:103:141 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.7<0>
node-0:103:141 [0] NCCL INFO Using network Socket
#  Rank  1 Group  0 Pid   4008 on     node-1 device  0 [0000:10:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    806.4    1.30    1.30      0    814.5    1.29    1.29      0
"""


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (SOCKET.model_copy(update={"adapters": ["mlx5_0"]}), "(the machine has mlx5_0): give pods or jobs the RDMA"),
        (SOCKET.model_copy(update={"lacking": ["NET/IB"]}), "(NET/IB: no device found): give pods or jobs the RDMA"),
        (SOCKET.model_copy(update={"adapters": ["rdmap0s6 (EFA)"]}), "install EFA's plugin of NCCL"),
        (SOCKET, None),
        (Transport(library="nccl", channels={"NET/IB": 4}, adapters=["mlx5_0"]), None),
        (Transport(library="nccl", channels={"P2P": 4}, network="Socket", lacking=["NET/IB"]), None),
    ],
)
def test_the_cause_is_on_the_first_screen_and_in_explain(tmp_path: Path, way: Transport, said: str | None) -> None:
    def change(record: TrialRecord) -> TrialRecord:
        ranks = record.trial.point.workers
        return record.model_copy(update={"transports": [way] * ranks if ranks > 1 else []})

    folder = write_bundle(tmp_path, OF, Truth(), tables=False, change=change)
    bundle = open_bundle(folder)
    lines = socket_lines([bundle])
    shown = CliRunner().invoke(cli, ["explain", str(folder)]).output
    if said is None:
        assert lines == ()
        assert "sockets carried" not in shown
        return
    (line,) = lines
    assert line.startswith("sockets carried the collectives at 2 workers ")
    assert said in line
    assert line in belief(analyze([bundle])).cautions
    assert f"warning: {line}" in shown


def test_an_import_keeps_what_nccl_said_of_its_network(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    file.write_text(IMPORTED)
    made = CliRunner().invoke(cli, ["import", str(file), "--into", str(tmp_path / "bundle")])
    assert made.exit_code == 0, made.output
    bundle = open_bundle(tmp_path / "bundle")
    (line,) = socket_lines([bundle])
    assert line.startswith("sockets carried the collectives at 2 workers (NET/IB: no device found): ")
    (trial,) = bundle.trials
    assert trial.record is not None
    assert trial.record.versions["nccl"] == "2.29.7"
    assert line in CliRunner().invoke(cli, ["allreduce", str(tmp_path / "bundle")]).output
