"""HTTPS, with a certificate that only these tests trust (``data/``, valid for a hundred years)."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest

from edgevlm.core import UsageError
from edgevlm.jetson.config import ServiceConfig
from edgevlm.jetson.serve import bind, serve

from .conftest import SCRIPTED
from .live import LiveService

DATA = Path(__file__).parent / "data"
CERTIFICATE, KEY = DATA / "tls_cert.pem", DATA / "tls_key.pem"


def test_https(engine: Path, importable: None) -> None:
    with LiveService(engine, SCRIPTED, tls_cert=CERTIFICATE, tls_key=KEY, wait=False) as live:
        context = ssl.create_default_context(cafile=str(CERTIFICATE))
        url = f"https://localhost:{live.port}/health"
        assert httpx.get(url, verify=context).json() == {"status": "ok"}
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)  # nobody else trusts it
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://localhost:{live.port}/health")


def test_what_cannot_be_served_is_one_line(engine: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tls_cert or tls_key cannot be used"):
        serve(ServiceConfig(engine, port=0, tls_cert=tmp_path / "none", tls_key=KEY))
    with bind(ServiceConfig(engine, port=0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1 port {port}"):
            bind(ServiceConfig(engine, port=port))
