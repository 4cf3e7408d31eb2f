"""Records in an object store: a folder that the reader trusts, through real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve_kube import object_store
from scalecurve_kube.object_store import RECORDS_ENV, ObjectStoreError


def test_what_is_written_is_read_by_who_knows_the_folder(tmp_path: Path) -> None:
    folder = f"file://{tmp_path}/store"
    for _ in range(2):
        object_store.write(folder, "team/a-record", b"outcome\npayload")
    assert object_store.read("team/a-record", {RECORDS_ENV: folder}) == b"outcome\npayload"
    with pytest.raises(ObjectStoreError, match=r"team/a-record in the operator's object store: set SCALECURVE_RECORDS"):
        object_store.read("team/a-record", {})
    with pytest.raises(ObjectStoreError, match=f"cannot read {folder}/team/other: FileNotFoundError"):
        object_store.read("team/other", {RECORDS_ENV: folder})


@pytest.mark.parametrize("folder", ["/records", "simplecache::file:///records", "nosuchstore://bucket"])
def test_a_folder_is_one_url_that_is_known(folder: str) -> None:
    with pytest.raises(ObjectStoreError, match=f"cannot open {folder}"):
        object_store.check(folder)
    object_store.check("file:///records")


def test_an_object_too_large_for_a_record_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "MAX_OBJECT_BYTES", 9)
    (tmp_path / "large").write_bytes(b"0123456789")
    with pytest.raises(ObjectStoreError, match="more than 9 bytes"):
        object_store.read("large", {RECORDS_ENV: f"file://{tmp_path}"})
