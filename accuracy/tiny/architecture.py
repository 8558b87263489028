"""Shapes of the tiny checkpoints, as ``config.json`` and its companions state them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KINDS = ("dense", "moe")
"""One feed-forward per layer, or a mixture of 16 experts of which each token uses 4."""

VISION = {
    "model_type": "qwen3_vl_vision",
    "depth": 6,
    "hidden_size": 192,
    "hidden_act": "gelu_pytorch_tanh",
    "intermediate_size": 768,
    "num_heads": 6,
    "in_channels": 3,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 256,
    "num_position_embeddings": 256,
    "deepstack_visual_indexes": [1, 3, 5],
    "initializer_range": 0.02,
}
TEXT = {
    "model_type": "qwen3_vl_text",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_scaling": {
        "rope_type": "default",
        "mrope_section": [8, 4, 4],
        "mrope_interleaved": True,
    },
    "max_position_embeddings": 4096,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "initializer_range": 0.02,
    "use_cache": True,
    "tie_word_embeddings": True,
}
# Four experts are a little narrower than the dense feed-forward; all sixteen fit in 28 MB.
_EXPERTS = {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 80}
_NAMES = {
    "dense": ("Qwen3VLForConditionalGeneration", "qwen3_vl"),
    "moe": ("Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe"),
}
_VOCABULARY_MULTIPLE = 64

_PIXELS = {"shortest_edge": 65536, "longest_edge": 1048576}
_NORMALISATION = {
    "do_convert_rgb": True,
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "rescale_factor": 1 / 255,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "resample": 3,
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
}


def model_config(
    vocabulary: int, token_id: Callable[[str], int], kind: str = "dense"
) -> dict[str, Any]:
    """``config.json`` for a vocabulary of ``vocabulary`` entries (padded to a multiple of 64).

    Args:
        kind: one of ``KINDS``.
    """
    architecture, model_type = _NAMES[kind]
    padded = -(-vocabulary // _VOCABULARY_MULTIPLE) * _VOCABULARY_MULTIPLE
    ends = {
        "bos_token_id": token_id("<|endoftext|>"),
        "eos_token_id": token_id("<|im_end|>"),
    }
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "dtype": "float16",
        "image_token_id": token_id("<|image_pad|>"),
        "video_token_id": token_id("<|video_pad|>"),
        "vision_start_token_id": token_id("<|vision_start|>"),
        "vision_end_token_id": token_id("<|vision_end|>"),
        "tie_word_embeddings": True,
        "text_config": TEXT
        | {"model_type": f"{model_type}_text", "vocab_size": padded, "dtype": "float16"}
        | ends
        | (_EXPERTS if kind == "moe" else {}),
        "vision_config": VISION | {"model_type": f"{model_type}_vision"},
    }


def generation_config(token_id: Callable[[str], int]) -> dict[str, Any]:
    """``generation_config.json``: greedy, ending at the end of the turn."""
    return {
        "do_sample": False,
        "bos_token_id": token_id("<|endoftext|>"),
        "pad_token_id": token_id("<|endoftext|>"),
        "eos_token_id": [token_id("<|im_end|>"), token_id("<|endoftext|>")],
    }


def image_processor_config() -> dict[str, Any]:
    """``preprocessor_config.json``: 256x256 up to 1024x1024 pixels keep their size."""
    return {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen3VLProcessor",
        "size": _PIXELS,
        **_NORMALISATION,
    }


def video_processor_config() -> dict[str, Any]:
    """``video_preprocessor_config.json``; its pixel limits count all frames of a clip."""
    return {
        "video_processor_type": "Qwen3VLVideoProcessor",
        "processor_class": "Qwen3VLProcessor",
        "size": {"shortest_edge": 4096, "longest_edge": 16777216},
        "fps": 2,
        "min_frames": 2,
        "max_frames": 64,
        "do_sample_frames": True,
        **_NORMALISATION,
    }
