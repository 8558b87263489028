"""Checkpoints made up for tests, in the layout of published ones."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from edgevlm.models import TextModel, VisionTower, parse_config
from tests.models.random_model import RandomModel, make_random_model

SIDE_FILES = ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json")


def save_random(
    path: Path,
    dtype: torch.dtype = torch.float32,
    *,
    tied: bool = False,
    shard: str | None = None,
    experts: dict[str, Any] | None = None,
    exchanged: bool = False,
) -> RandomModel:
    """Write a random model as ``transformers`` does; returns it with the weights it wrote.

    Args:
        exchanged: leave experts as its own module has them, not as published checkpoints do.
    """
    model = make_random_model(tied=tied, experts=experts)
    model.reference.to(dtype)
    model.reference.save_pretrained(path, **({"max_shard_size": shard} if shard else {}))
    if experts and not exchanged:
        save_file(model.published(), path / "model.safetensors")
    write_side_files(path)
    return model


def write_side_files(path: Path) -> None:
    for name in SIDE_FILES:
        (path / name).write_text("{}", encoding="utf-8")


def save_sparse_4b(path: Path) -> None:
    """A checkpoint with the shapes of Qwen3-VL-4B whose 8.9 GB of weights are one hole."""
    path.mkdir(parents=True)
    raw = _config_4b()
    (path / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    write_side_files(path)
    config = parse_config(raw)
    with torch.device("meta"):
        text, vision = TextModel(config.text), VisionTower(config.vision)
    shapes = {f"model.language_model.{k}": v.shape for k, v in text.state_dict().items()}
    head = shapes.pop("model.language_model.lm_head.weight")
    shapes["model.language_model.embed_tokens.weight"] = head
    shapes |= {f"model.visual.{k}": v.shape for k, v in vision.state_dict().items()}
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text_header = json.dumps(header).encode()
    with (path / "model.safetensors").open("wb") as file:
        file.write(len(text_header).to_bytes(8, "little") + text_header)
        file.truncate(8 + len(text_header) + end)


def _config_4b() -> dict[str, Any]:
    return {
        "model_type": "qwen3_vl",
        "tie_word_embeddings": True,
        "image_token_id": 151655,
        "video_token_id": 151656,
        "vision_start_token_id": 151652,
        "vision_end_token_id": 151653,
        "text_config": {
            "vocab_size": 151936,
            "hidden_size": 2560,
            "intermediate_size": 9728,
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "rope_theta": 5000000,
            "rope_scaling": {"rope_type": "default", "mrope_section": [24, 20, 20]},
            "max_position_embeddings": 262144,
        },
        "vision_config": {
            "depth": 24,
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_heads": 16,
            "out_hidden_size": 2560,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [5, 11, 17],
        },
    }
