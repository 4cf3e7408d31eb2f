"""Every RDMA adapter of a machine is recorded, usable in this container or not."""

from pathlib import Path

import pytest

transports = pytest.importorskip("scalecurve_worker.torch.transports")


def test_adapters_are_named_with_efa_by_its_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, driver in (("mlx5_0", "mlx5_core"), ("rdmap0s6", "efa")):
        (tmp_path / "drivers" / driver).mkdir(parents=True)
        (tmp_path / "infiniband" / name / "device").mkdir(parents=True)
        (tmp_path / "infiniband" / name / "device" / "driver").symlink_to(tmp_path / "drivers" / driver)
    monkeypatch.setattr(transports, "_ADAPTERS", tmp_path / "infiniband")
    assert transports.adapters() == ["mlx5_0", "rdmap0s6 (EFA)"]
    monkeypatch.setattr(transports, "_ADAPTERS", tmp_path / "none")
    assert transports.adapters() == []
