"""This machine's own pip settings and Debian mirror are followed, and stay out of the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.images import debian, pip_settings

SAID = """:env:.index-url='https://inner.example/simple'
:env:.find-links='/srv/own-packages'
:env:.no-color='1'
global.cert='/etc/own.pem'
global.index-url='https://outer.example/simple'
global.trusted-host='a.example\\nb.example'
install.timeout='20'
"""


def test_pips_settings_are_handed_on() -> None:
    assert pip_settings.configured(SAID) == {
        "cert": "/etc/own.pem",
        "index-url": "https://inner.example/simple",
        "timeout": "20",
        "trusted-host": "a.example b.example",
    }
    assert pip_settings.configured("") == {}


def test_they_are_a_secret_of_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://inner.example/simple")
    assert f"--secret=id=pip,src={tmp_path}/pip.conf" in pip_settings.secrets(tmp_path)
    assert "index-url = https://inner.example/simple" in (tmp_path / "pip.conf").read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.list", "deb [signed-by=/k arch=amd64] http://m.example/debian bookworm main contrib\n"),
        (
            "a.sources",
            "Types: deb\nURIs: http://m.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\n",
        ),
    ],
)
def test_this_machines_mirror_is_used(tmp_path: Path, name: str, text: str) -> None:
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (folder / name).write_text(text)
    (folder / "b.list").write_text("deb http://m.example/security bookworm-security main\n")
    (folder / "vendor.list").write_text("deb https://vendor.example/apt vendor-bookworm main\n")
    (folder / "old.list.disabled").write_text(text)
    assert debian.own_sources(tmp_path) == [folder / name, folder / "b.list"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "deb http://m.example/ubuntu noble main\n",
        "deb http://m.example/extra bookworm tools\n",
        "deb http://m.example/debian bookworm-backports main\n",
        "deb http://m.example/security bookworm-security main\n",
    ],
)
def test_another_releases_mirror_is_not(tmp_path: Path, text: str) -> None:
    (tmp_path / "sources.list").write_text(text)
    assert debian.own_sources(tmp_path) == []
