"""TensorRT stand-ins installed as the real modules, and engines of the bundled checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgevlm.builder import (
    BuildConfig,
    build_engine,
    inspection,
    target_tensorrt,
    timing_cache,
)
from edgevlm.core import EngineLimits
from edgevlm.core.gpu import Gpu
from edgevlm.runtime import parity_gate
from edgevlm.runtime.engines import tensorrt_device
from tests.builder.conftest import traced_once  # noqa: F401  (the same shapes again and again)
from tests.fakes.tensorrt import FakeDevice, FakeTensorRT

CHECKPOINT = Path(__file__).parents[2] / "examples/checkpoints/tiny-dense"
LIMITS = EngineLimits(
    max_input_len=320, max_kv_len=640, max_batch=4, max_image_tokens=256, max_images=2
)
VERSION = "10.16.1.11"

Install = Callable[..., FakeDevice]


def install_fake(
    patch: pytest.MonkeyPatch,
    library: str = "tensorrt",
    version: str = VERSION,
    capability: str = "11.0",
) -> FakeDevice:
    """Make ``library`` importable at ``version`` on a GPU of this capability."""
    device = FakeDevice(capability)
    module = FakeTensorRT(library, version, device)
    patch.setitem(sys.modules, module.__name__, module)
    if library == "tensorrt":
        patch.setitem(sys.modules, module.plugin.__name__, module.plugin)
    gpu = Gpu(device.name, capability, 2**37, unified=True)
    for user in (target_tensorrt, timing_cache, inspection, parity_gate):
        patch.setattr(user, "present_gpu", lambda: gpu)
    patch.setattr(tensorrt_device, "open_device", lambda name: device)
    return device


def build(output: Path, checkpoint: Path = CHECKPOINT, **options: object) -> Path:
    """Build for ``tensorrt`` in float16 unless ``options`` say otherwise."""
    settings: dict[str, object] = {"target": "tensorrt", "dtype": "float16", "limits": LIMITS}
    named = {key: options.pop(key) for key in ("on_progress", "verify") if key in options}
    build_engine(
        BuildConfig(checkpoint, output, **(settings | options)),  # type: ignore[arg-type]
        **named,  # type: ignore[arg-type]
    )
    return output


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """:func:`install_fake` for the length of one test."""
    return lambda *arguments, **named: install_fake(monkeypatch, *arguments, **named)


@pytest.fixture
def device(install: Install) -> FakeDevice:
    """A Thor with TensorRT."""
    return install()


@pytest.fixture(scope="session")
def thor_engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled checkpoint built for a Thor, float16; not to be changed."""
    folder = tmp_path_factory.mktemp("thor")
    with pytest.MonkeyPatch.context() as patch:
        install_fake(patch)
        return build(folder / "engine")
