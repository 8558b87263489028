"""Client keys: made once, kept as hashes, and watched for changes."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from edgevlm.cli.main import main
from edgevlm.core import UsageError
from edgevlm.jetson.keys import KeyFile, KeyRing

from .conftest import SCRIPTED
from .live import LiveService


def test_keys_are_shown_once_and_stored_as_hashes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "keys.json"
    assert main(["keys", "add", "camera", "--file", str(path)]) == 0
    key = capsys.readouterr().out.strip()
    assert key.startswith("evlm-") and key not in path.read_text()
    assert path.stat().st_mode & 0o007 == 0
    ring = KeyRing(KeyFile(path))
    assert ring.client(key) == "camera" and ring.client(key + "x") is None
    assert ring.client("\ud800") is None
    assert main(["keys", "add", "camera", "--file", str(path)]) == 2
    assert main(["keys", "add", "a b", "--file", str(path)]) == 2
    assert main(["keys", "list", "--file", str(path)]) == 0
    assert capsys.readouterr().out.startswith("camera ")
    assert main(["keys", "remove", "camera", "--file", str(path)]) == 0
    ring.reload()
    assert ring.client(key) is None
    assert main(["keys", "remove", "camera", "--file", str(path)]) == 2


@pytest.mark.parametrize("text", ["", "[]", '{"keys": []}', '{"keys": {"a": {}}}'])
def test_a_file_that_is_no_key_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="not a key file"):
        KeyRing(KeyFile(path))


def test_a_full_disk_leaves_the_keys_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    KeyFile(path).add("first")
    before = path.read_text()
    done = subprocess.run(
        [sys.executable, "-m", "edgevlm.cli.main", "keys", "add", "second", "--file", str(path)],
        capture_output=True,
        text=True,
        preexec_fn=_no_room,
    )
    assert done.returncode == 2 and "cannot write" in done.stderr
    assert path.read_text() == before and list(tmp_path.iterdir()) == [path]


def _no_room() -> None:
    """Writing fails as on a full disk: not one byte more fits."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def test_a_live_service_wants_a_key_for_everything_that_tells_anything(
    engine: Path, importable: None, tmp_path: Path
) -> None:
    path = tmp_path / "keys.json"
    file = KeyFile(path)
    key = file.add("camera")
    with LiveService(engine, SCRIPTED, keys_file=path, wait=False) as live:
        for open_path in ("/", "/health", "/health/ready"):
            assert httpx.get(live.url + open_path).status_code in (200, 503)
        for closed in ("/v1/models", "/metrics", "/openapi.json", "/nothing"):
            response = httpx.get(live.url + closed)
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
        assert live.chat("say:x").status_code == 401
        good = {"Authorization": f"Bearer {key}"}
        assert httpx.get(f"{live.url}/v1/models", headers=good).status_code == 200
        # With keys the service may be reached under any name.
        named = {**good, "Host": "board.local"}
        assert httpx.get(f"{live.url}/v1/models", headers=named).status_code == 200
        file.remove("camera")
        assert httpx.get(f"{live.url}/v1/models", headers=good).status_code == 401
        new = file.add("robot")
        path_ok = httpx.get(f"{live.url}/v1/models", headers={"Authorization": f"Bearer {new}"})
        assert path_ok.status_code == 200
        path.write_text("{")  # being edited: the keys known so far stay in force
        assert (
            httpx.get(
                f"{live.url}/v1/models", headers={"Authorization": f"Bearer {new}"}
            ).status_code
            == 200
        )
        assert json.loads(live_body(live, new))["data"][0]["id"] == "tiny"


def live_body(live: LiveService, key: str) -> str:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.get(f"{live.url}/v1/models", headers=headers).text


def test_other_web_pages_are_kept_out(scripted: LiveService) -> None:
    def status(**headers: str) -> int:
        return httpx.get(f"{scripted.url}/v1/models", headers=headers).status_code

    assert status() == 200
    assert status(Host="evil.example") == 403  # a name made to lead to this machine
    assert status(Origin="https://evil.example") == 403
    assert status(Origin="null") == 403
    assert status(Origin=scripted.url) == 200
    assert status(Host=f"localhost:{scripted.port}") == 200
