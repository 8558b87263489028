"""Two services for all tests: one with the bundled model, one that says what it is told."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from edgevlm.builder.build import BuildConfig, build_engine
from edgevlm.core import EngineLimits

from .live import LiveService

ROOT = Path(__file__).parents[2]
CHECKPOINT = ROOT / "examples/checkpoints/tiny-dense"
LIMITS = EngineLimits(max_input_len=1280, max_kv_len=1408, max_batch=8, max_image_tokens=256)
SCRIPTED = {"opener": "tests.jetson.scripted:open_engine"}


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled checkpoint as an engine directory."""
    folder = tmp_path_factory.mktemp("engine") / "tiny"
    build_engine(BuildConfig(CHECKPOINT, folder, "onnxruntime", "float32", LIMITS))
    return folder


@pytest.fixture(scope="session")
def importable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lets worker processes import these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        patch.setenv("PYTHONPATH", ":".join(path))
        yield


@pytest.fixture(scope="session")
def tiny(engine: Path) -> Iterator[LiveService]:
    """The bundled model, served."""
    with LiveService(engine) as live:
        yield live


@pytest.fixture(scope="session")
def scripted(engine: Path, importable: None) -> Iterator[LiveService]:
    """The model that says what it is told, served with a short queue and two slots."""
    with LiveService(
        engine,
        SCRIPTED,
        queue_size=4,
        queue_per_client=3,
        head_timeout_s=1.0,
        body_timeout_s=1.0,
        max_connections=32,
        max_body_mb=0.2,
    ) as live:
        yield live


def png(array: Any) -> bytes:
    """An encoded image."""
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(array, dtype=np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def data_uri(data: bytes) -> str:
    """How clients send an image."""
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")


def image_part(array: Any) -> dict[str, Any]:
    """An image as a content part."""
    return {"type": "image_url", "image_url": {"url": data_uri(png(array))}}
