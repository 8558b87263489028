"""Makes the training example importable, and builds what several tests measure on."""

import sys
from pathlib import Path

import pytest
import torch

from edgevlm.accuracy.datasets import prepare_tiny
from edgevlm.builder.build import BuildConfig, build_engine
from edgevlm.core import EngineLimits

ROOT = Path(__file__).resolve().parents[2]

# The networks are small: more threads cost more than they gain.
torch.set_num_threads(1)
sys.path.insert(0, str(ROOT / "examples"))  # a script beside the packages, not one of them


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled checkpoint for the torch target."""
    folder = tmp_path_factory.mktemp("engine") / "tiny"
    limits = EngineLimits(max_input_len=320, max_kv_len=640, max_batch=4, max_image_tokens=256)
    checkpoint = ROOT / "examples/checkpoints/tiny-dense"
    build_engine(BuildConfig(checkpoint, folder, "torch", "float32", limits))
    return folder


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of one drawn prompt per task."""
    return prepare_tiny(tmp_path_factory.mktemp("data"), samples=1, seed=3).path
