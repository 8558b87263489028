"""Writing a tiny checkpoint as a Hugging Face directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from .architecture import (
    generation_config,
    image_processor_config,
    model_config,
    video_processor_config,
)
from .chat import ChatEncoder
from .tokenizer import MARKUP_TOKENS, SPECIAL_TOKENS

_TEMPLATE = Path(__file__).with_name("chat_template.jinja")
_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"


def write_assets(folder: Path, tokenizer: Tokenizer, kind: str = "dense") -> None:
    """Write everything but the weights: configurations, tokenizer and chat template.

    Args:
        kind: ``"dense"`` or ``"moe"``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    token_id = ChatEncoder(tokenizer).token_id
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(token_id))
    _write_json(folder / "config.json", model_config(tokenizer.get_vocab_size(), token_id, kind))
    _write_json(folder / "generation_config.json", generation_config(token_id))
    _write_json(folder / "preprocessor_config.json", image_processor_config())
    _write_json(folder / "video_preprocessor_config.json", video_processor_config())
    (folder / "chat_template.jinja").write_text(_TEMPLATE.read_text(encoding="utf-8"), "utf-8")


def write_weights(
    folder: Path, tensors: Mapping[str, Tensor], *, shard_bytes: int | None = None
) -> None:
    """Write weights under their Hugging Face names, as fp16.

    Args:
        tensors: every tensor of the checkpoint; tied copies left out.
        shard_bytes: split into files of at most this many bytes, with an index; one file if
            ``None``. Hugging Face loaders read either form.
    """
    half = {name: t.detach().to("cpu", torch.float16).contiguous() for name, t in tensors.items()}
    shards: list[dict[str, Tensor]] = [{}]
    for name, tensor in half.items():
        filled = sum(t.nbytes for t in shards[-1].values())
        if shard_bytes and filled and filled + tensor.nbytes > shard_bytes:
            shards.append({})
        shards[-1][name] = tensor
    _remove_weights(folder)
    if len(shards) == 1:
        save_file(half, folder / _SINGLE, metadata={"format": "pt"})
        return
    where: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        where.update(dict.fromkeys(shard, file))
    total = sum(t.nbytes for t in half.values())
    _write_json(folder / _INDEX, {"metadata": {"total_size": total}, "weight_map": where})


def read_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint, from one file or from shards."""
    if (folder / _SINGLE).exists():
        return load_file(folder / _SINGLE)
    index = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
    tensors: dict[str, Tensor] = {}
    for file in sorted(set(index["weight_map"].values())):
        tensors.update(load_file(folder / file))
    return tensors


def join_shards(folder: Path) -> None:
    """Replace the shards of a checkpoint by one ``model.safetensors``."""
    write_weights(folder, read_weights(folder))


def _remove_weights(folder: Path) -> None:
    for file in (*folder.glob("model*.safetensors"), folder / _INDEX):
        file.unlink(missing_ok=True)


def _tokenizer_config(token_id: Any) -> dict[str, Any]:
    added = {
        str(token_id(token)): {
            "content": token,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": token in SPECIAL_TOKENS,
        }
        for token in (*SPECIAL_TOKENS, *MARKUP_TOKENS)
    }
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "processor_class": "Qwen3VLProcessor",
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "additional_special_tokens": [t for t in SPECIAL_TOKENS if t != "<|endoftext|>"],
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
        "split_special_tokens": False,
        "errors": "replace",
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
