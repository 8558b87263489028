"""The systemd unit: hardened, and not so much that the GPU is gone."""

from __future__ import annotations

import os
import socket
import tomllib
from configparser import RawConfigParser
from pathlib import Path

import pytest

from edgevlm.cli.main import main
from edgevlm.core import UsageError
from edgevlm.jetson import unit
from edgevlm.jetson.notify import notify_systemd


class _Unit(RawConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


def test_the_unit_says_what_it_must(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["service", "install", "--engine", "engines/tiny", "--print"]) == 0
    text = capsys.readouterr().out
    parser = _Unit(strict=True)
    parser.read_string(text)
    service = dict(parser["Service"])
    wanted = {
        "Type": "notify",
        "Restart": "on-failure",
        "RestartPreventExitStatus": "2",  # wrong usage stays wrong
        "OOMPolicy": "continue",  # the worker may die, the service restarts it
        "OOMScoreAdjust": "200",
        "TimeoutStartSec": "infinity",
        "TimeoutStopSec": "90",
        "KillMode": "mixed",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "CapabilityBoundingSet": "",
        "SupplementaryGroups": "video render",
    }
    assert wanted.items() <= service.items()
    for hiding_the_gpu in ("PrivateDevices", "DevicePolicy", "MemoryDenyWriteExecute"):
        assert hiding_the_gpu not in service
    assert service["ExecStart"].endswith("/edgevlm serve --config /etc/edgevlm/service.toml")


def test_the_first_configuration_is_one() -> None:
    folder = Path('/data/my "engine"\\x')
    assert tomllib.loads(unit.config_text(folder)) == {"engine": str(folder)}


def test_without_root_or_systemd_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for action in (lambda: unit.install(Path("e")), unit.uninstall):
        with pytest.raises(UsageError, match="run it with sudo"):
            action()
    monkeypatch.setenv("PATH", "")
    for action in (unit.status, lambda: unit.logs(True)):
        with pytest.raises(UsageError, match="does not run systemd"):
            action()


def test_systemd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify_systemd("READY=1")
        assert listener.recv(100) == b"READY=1"
    notify_systemd("nobody listens any more")
