"""A small mixture of experts on disk, with random weights."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import save_file

from tests.models.random_model import EXPERTS, RandomModel, make_random_model

LAYERS = (0, 2, 3)  # layer 1 is dense


def save_mixture(folder: Path, seed: int = 0, **changed: int) -> RandomModel:
    """Write a checkpoint as it would be published."""
    model = make_random_model(seed, experts=EXPERTS | changed)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(model.reference.config.to_dict()))
    save_file(model.published(), folder / "model.safetensors", {"format": "pt"})
    return model
