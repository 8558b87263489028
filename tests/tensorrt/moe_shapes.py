"""A checkpoint with the shapes of Qwen3-VL-30B-A3B and few layers, whose weights are one hole."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import torch

from edgevlm.builder import BuildConfig, build_engine
from edgevlm.models import TextModel, VisionTower, parse_config
from tests.builder.checkpoints import _config_4b, write_side_files

_TEXT = {
    "vocab_size": 1024,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "decoder_sparse_step": 1,
    "norm_topk_prob": True,
    "mlp_only_layers": [],
}


def save_sparse_30b(path: Path, layers: int, depth: int = 1) -> None:
    """``layers`` of the language model and ``depth`` blocks of the vision tower, bfloat16."""
    path.mkdir(parents=True)
    raw = _config_4b()
    raw |= {"model_type": "qwen3_vl_moe", "tie_word_embeddings": False}
    raw["text_config"] |= _TEXT | {"num_hidden_layers": layers}
    raw["vision_config"] |= {
        "depth": depth,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "out_hidden_size": 2048,
        "deepstack_visual_indexes": [0],
    }
    (path / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    write_side_files(path)
    config = parse_config(raw)
    with torch.device("meta"):
        text, vision = TextModel(config.text), VisionTower(config.vision)
    shapes = {f"model.language_model.{k}": v.shape for k, v in text.state_dict().items()}
    head = shapes.pop("model.language_model.lm_head.weight")
    shapes |= {"lm_head.weight": head, "model.language_model.embed_tokens.weight": head}
    shapes |= {f"model.visual.{k}": v.shape for k, v in vision.state_dict().items()}
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text_header = json.dumps(header).encode()
    text_header += b" " * (-len(text_header) % 8)
    with (path / "model.safetensors").open("wb") as file:
        file.write(len(text_header).to_bytes(8, "little") + text_header)
        file.truncate(8 + len(text_header) + end)


def main(folder: Path) -> None:
    """Build two layers; a process of its own, for it takes 5 GB at its peak."""
    save_sparse_30b(folder / "checkpoint", layers=2)
    build_engine(
        BuildConfig(
            folder / "checkpoint",
            folder / "engine",
            "tensorrt-rtx",
            compute_capabilities=("8.9", "12.0"),
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
