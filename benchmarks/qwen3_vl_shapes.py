"""Checkpoints with the shapes of published Qwen3-VL models and made-up weights."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch

from ..models import TextModel, VisionTower, parse_config

SIDE_FILES = ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json")
# hidden size, MLP size, layers, query heads of the language model; all have 8 KV heads of 128
# channels, the same vocabulary, and vision towers that differ in their output width alone.
_TEXT = {"2b": (2048, 6144, 28, 16), "4b": (2560, 9728, 36, 32)}


VOCABULARY = 151_936


def write_checkpoint(
    directory: Path,
    size: str,
    layers: int = 0,
    depth: int = 0,
    vocabulary: int = VOCABULARY,
    *,
    sparse: bool = False,
) -> None:
    """Write a bfloat16 checkpoint that has every shape of Qwen3-VL-2B or -4B.

    Args:
        size: ``"2b"`` or ``"4b"``.
        layers, depth: decoder layers and vision blocks, if fewer than the model has.
        vocabulary: rows of the embedding table, if fewer.
        sparse: zeros, as a hole in the file that takes no space; otherwise small random numbers.
    """
    directory.mkdir(parents=True)
    raw = _config(size, layers, depth)
    raw["text_config"]["vocab_size"] = vocabulary
    (directory / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    for name in SIDE_FILES:
        (directory / name).write_text("{}", encoding="utf-8")
    config = parse_config(raw)
    with torch.device("meta"):
        text, vision = TextModel(config.text), VisionTower(config.vision)
    shapes = {f"model.language_model.{k}": v.shape for k, v in text.state_dict().items()}
    head = shapes.pop("model.language_model.lm_head.weight")
    shapes["model.language_model.embed_tokens.weight"] = head
    shapes |= {f"model.visual.{k}": v.shape for k, v in vision.state_dict().items()}
    _write_weights(directory / "model.safetensors", shapes, sparse)


def _write_weights(path: Path, shapes: dict[str, torch.Size], sparse: bool) -> None:
    """One safetensors file, one tensor in memory at a time."""
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = torch.Generator().manual_seed(0)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        if sparse:
            file.truncate(8 + len(text) + end)
            return
        for shape in shapes.values():
            values = torch.empty(shape, dtype=torch.bfloat16).normal_(0, 0.02, generator=generator)
            file.write(values.view(torch.uint8).numpy().data)


def _config(size: str, layers: int, depth: int) -> dict[str, Any]:
    hidden, intermediate, all_layers, heads = _TEXT[size]
    layers, depth = layers or all_layers, depth or 24
    planes = min(3, layers)  # a plane beyond the last decoder layer would have no use
    return {
        "model_type": "qwen3_vl",
        "tie_word_embeddings": True,
        "image_token_id": 151655,
        "video_token_id": 151656,
        "vision_start_token_id": 151652,
        "vision_end_token_id": 151653,
        "text_config": {
            "hidden_size": hidden,
            "intermediate_size": intermediate,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "rope_theta": 5000000,
            "rope_scaling": {"rope_type": "default", "mrope_section": [24, 20, 20]},
            "max_position_embeddings": 262144,
        },
        "vision_config": {
            "depth": depth,
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_heads": 16,
            "out_hidden_size": hidden,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [(i + 1) * depth // 4 - 1 for i in range(planes)],
        },
    }
