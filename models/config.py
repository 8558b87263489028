"""Qwen3-VL's configuration, read from a checkpoint's ``config.json`` and checked once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import CheckpointError

_ARCHITECTURES = ("qwen3_vl", "qwen3_vl_moe")


@dataclass(frozen=True)
class VisionConfig:
    """The vision tower. Lengths in channels; ``deepstack_layers`` are 0-based block indices."""

    depth: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    out_hidden_size: int
    num_position_embeddings: int
    deepstack_layers: tuple[int, ...]
    patch_size: int = 16
    temporal_patch_size: int = 2
    merge_size: int = 2
    in_channels: int = 3
    rope_theta: float = 10000.0

    def __post_init__(self) -> None:
        _require(self.hidden_size % self.num_heads == 0, "vision hidden_size % num_heads == 0")
        _require(
            self.head_dim % 4 == 0, "vision head_dim % 4 == 0 (rotary halves for rows, columns)"
        )
        _require(self.grid_side**2 == self.num_position_embeddings, "a square position table")
        inside = all(0 <= layer < self.depth for layer in self.deepstack_layers)
        _require(inside, f"deepstack_visual_indexes inside 0..{self.depth - 1}")

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_heads

    @property
    def grid_side(self) -> int:
        """Side of the square grid of learned position embeddings."""
        return int(self.num_position_embeddings**0.5)

    @property
    def patch_dim(self) -> int:
        """Values in one flattened patch: channels x frames x rows x columns."""
        return self.in_channels * self.temporal_patch_size * self.patch_size**2

    @property
    def merge_unit(self) -> int:
        """Patches per visual token of the language model."""
        return self.merge_size**2


@dataclass(frozen=True)
class MoeConfig:
    """The mixture of experts that takes the place of the feed-forward in some or all layers.

    ``intermediate_size`` is the width of one expert; ``dense_layers`` are the 0-based layers that
    keep an ordinary feed-forward.
    """

    num_experts: int
    top_k: int
    intermediate_size: int
    dense_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _require(0 < self.top_k <= self.num_experts, "num_experts_per_tok in 1..num_experts")


@dataclass(frozen=True)
class TextConfig:
    """The language model. ``mrope_section`` counts rotary frequencies for time, height, width."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    mrope_section: tuple[int, int, int]
    max_position_embeddings: int
    tie_word_embeddings: bool
    moe: MoeConfig | None = None

    def __post_init__(self) -> None:
        _require(self.num_heads % self.num_kv_heads == 0, "num_attention_heads % num_kv_heads == 0")
        _require(
            sum(self.mrope_section) == self.head_dim // 2, "sum(mrope_section) == head_dim / 2"
        )

    @property
    def moe_layers(self) -> tuple[int, ...]:
        """0-based layers whose feed-forward is a mixture of experts."""
        if self.moe is None:
            return ()
        dense = self.moe.dense_layers
        return tuple(layer for layer in range(self.num_layers) if layer not in dense)


@dataclass(frozen=True)
class ModelConfig:
    """One Qwen3-VL checkpoint: both networks and the ids that mark media in a prompt."""

    text: TextConfig
    vision: VisionConfig
    dtype: str
    image_token_id: int
    video_token_id: int
    vision_start_token_id: int
    vision_end_token_id: int

    @property
    def num_deepstack(self) -> int:
        return len(self.vision.deepstack_layers)


def load_config(checkpoint: Path) -> ModelConfig:
    """Read ``checkpoint/config.json``.

    Raises:
        CheckpointError: the file is missing, is not JSON, lacks a field, or describes another
            architecture.
    """
    path = checkpoint / "config.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; is this a Hugging Face checkpoint?") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: not valid JSON ({error})") from None
    try:
        return parse_config(raw)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None


def parse_config(raw: dict[str, Any]) -> ModelConfig:
    """Build a :class:`ModelConfig` from the dictionary form of ``config.json``.

    Raises:
        CheckpointError: see :func:`load_config`.
    """
    kind = raw.get("model_type") if isinstance(raw, dict) else None
    if kind not in _ARCHITECTURES:
        known = ", ".join(_ARCHITECTURES)
        raise CheckpointError(f"architecture {kind!r} is not supported; supported: {known}")
    try:
        text, vision = raw["text_config"], raw["vision_config"]
        return ModelConfig(
            text=_parse_text(text, tied=_tied(raw, text)),
            vision=_parse_vision(vision),
            dtype=_dtype(raw, text),
            image_token_id=int(raw["image_token_id"]),
            video_token_id=int(raw["video_token_id"]),
            vision_start_token_id=int(raw["vision_start_token_id"]),
            vision_end_token_id=int(raw["vision_end_token_id"]),
        )
    except KeyError as error:
        raise CheckpointError(f"field {error} is missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"a field has the wrong form ({error})") from None


def _parse_text(raw: dict[str, Any], *, tied: bool) -> TextConfig:
    # Newer checkpoints keep rope_theta inside rope_parameters; published ones use rope_scaling.
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    heads = int(raw["num_attention_heads"])
    section = tuple(int(n) for n in rope.get("mrope_section", (24, 20, 20)))
    _require(len(section) == 3, "mrope_section with three entries")
    _require(rope.get("rope_type", "default") == "default", "rope_type 'default'")
    _require(raw.get("hidden_act", "silu") == "silu", "hidden_act 'silu'")
    _require(not raw.get("attention_bias", False), "attention_bias false")
    return TextConfig(
        vocab_size=int(raw["vocab_size"]),
        hidden_size=int(raw["hidden_size"]),
        intermediate_size=int(raw["intermediate_size"]),
        num_layers=int(raw["num_hidden_layers"]),
        num_heads=heads,
        num_kv_heads=int(raw.get("num_key_value_heads") or heads),
        head_dim=int(raw.get("head_dim") or raw["hidden_size"] // heads),
        rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
        rope_theta=float(rope.get("rope_theta") or raw["rope_theta"]),
        mrope_section=(section[0], section[1], section[2]),
        max_position_embeddings=int(raw.get("max_position_embeddings", 128000)),
        tie_word_embeddings=tied,
        moe=_parse_moe(raw) if "num_experts" in raw or "num_local_experts" in raw else None,
    )


def _parse_moe(raw: dict[str, Any]) -> MoeConfig:
    # Router weights are renormalised whatever norm_topk_prob says: the published model does so.
    step = int(raw.get("decoder_sparse_step", 1))
    only = [int(layer) for layer in raw.get("mlp_only_layers") or ()]
    layers = range(int(raw["num_hidden_layers"]))
    return MoeConfig(
        num_experts=int(raw.get("num_experts") or raw["num_local_experts"]),
        top_k=int(raw["num_experts_per_tok"]),
        intermediate_size=int(raw["moe_intermediate_size"]),
        dense_layers=tuple(n for n in layers if n in only or (n + 1) % step),
    )


def _parse_vision(raw: dict[str, Any]) -> VisionConfig:
    rope = raw.get("rope_parameters") or {}
    _require(
        raw.get("hidden_act", "gelu_pytorch_tanh") == "gelu_pytorch_tanh",
        "vision hidden_act 'gelu_pytorch_tanh'",
    )
    return VisionConfig(
        depth=int(raw["depth"]),
        hidden_size=int(raw["hidden_size"]),
        intermediate_size=int(raw["intermediate_size"]),
        num_heads=int(raw["num_heads"]),
        out_hidden_size=int(raw["out_hidden_size"]),
        num_position_embeddings=int(raw["num_position_embeddings"]),
        deepstack_layers=tuple(int(n) for n in raw["deepstack_visual_indexes"]),
        patch_size=int(raw.get("patch_size", 16)),
        temporal_patch_size=int(raw.get("temporal_patch_size", 2)),
        merge_size=int(raw.get("spatial_merge_size", 2)),
        in_channels=int(raw.get("in_channels", 3)),
        rope_theta=float(rope.get("rope_theta", 10000.0)),
    )


def _dtype(raw: dict[str, Any], text: dict[str, Any]) -> str:
    return str(raw.get("dtype") or raw.get("torch_dtype") or text.get("dtype") or "bfloat16")


def _tied(raw: dict[str, Any], text: dict[str, Any]) -> bool:
    return bool(raw.get("tie_word_embeddings", text.get("tie_word_embeddings", False)))


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise CheckpointError(f"this project needs {what}")
