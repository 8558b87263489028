"""What goes into and comes out of each network: names, dtypes, shapes and shape profiles.

Symbols: ``batch`` sequences of ``tokens`` new tokens each; ``images`` images (or frame pairs) of
``visual_tokens`` visual tokens, four patches each. The KV capacity is ``max_kv_len`` where the
backend wants it static (TensorRT's cache update does), else the symbol ``kv_capacity``.

The language model's rules, the same on every backend:

* Sequences shorter than ``tokens`` are padded on the right. ``kv_lengths`` is always
  ``write_indices + tokens``: new row ``i`` sees slots ``0..write_indices + i``, so rows that count
  see no padding, and the next step overwrites the padding's slots.
* ``k_cache_i_out`` and ``v_cache_i_out`` are bound to the memory of their inputs: only the new
  rows are written. One slot of a larger cache is a contiguous slice, so its address will do.
* Caches start as zeros: a slot that is not attended is still multiplied, by zero.
* ``logits`` are those of row ``last_token_ids`` of each sequence.
* An engine with routing control also takes and returns what
  :mod:`edgevlm.plugins.controls` lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.limits import EngineLimits
from ..core.manifest import Profile, Range, TensorSpec
from ..models import ModelConfig
from ..plugins.controls import Control, numbered


@dataclass(frozen=True)
class Contract:
    """The inputs, outputs and profiles of one network."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    profiles: tuple[Profile, ...]


def text_contract(
    config: ModelConfig,
    limits: EngineLimits,
    dtype: str,
    *,
    dynamic_kv: bool = False,
    controls: Sequence[Control] = (),
) -> Contract:
    """The language model's contract; ``dtype`` is that of embeddings, rotations and caches."""
    text = config.text
    rows = ("batch", "tokens")
    capacity = "kv_capacity" if dynamic_kv else limits.max_kv_len
    caches = [
        TensorSpec(
            f"{part}_cache_{layer}",
            dtype,
            ("batch", text.num_kv_heads, capacity, text.head_dim),
        )
        for layer in range(text.num_layers)
        for part in ("k", "v")
    ]
    inputs = (
        TensorSpec("inputs_embeds", dtype, (*rows, text.hidden_size)),
        TensorSpec("rope_cos", dtype, (*rows, text.head_dim // 2)),
        TensorSpec("rope_sin", dtype, (*rows, text.head_dim // 2)),
        *(
            TensorSpec(f"deepstack_{plane}", dtype, (*rows, text.hidden_size))
            for plane in range(config.num_deepstack)
        ),
        TensorSpec("write_indices", "int64", ("batch",)),
        TensorSpec("kv_lengths", "int64", ("batch",)),
        TensorSpec("last_token_ids", "int64", ("batch",)),
        *caches,
        *(spec for control in controls for spec in control.shared),
        *(
            spec
            for control in controls
            for layer in text.moe_layers
            for spec in numbered(control.layer, layer)
        ),
    )
    outputs = (
        TensorSpec("logits", "float32", ("batch", text.vocab_size)),
        *(TensorSpec(f"{cache.name}_out", dtype, cache.shape) for cache in caches),
        *(
            spec
            for layer in text.moe_layers
            for control in controls
            for spec in numbered(control.reports, layer)
        ),
    )
    slots = {"kv_capacity": _up_to(limits.max_kv_len)} if dynamic_kv else {}
    prefill = {"batch": Range(1, 1, 1), "tokens": _up_to(limits.max_input_len), **slots}
    decode = {"batch": _up_to(limits.max_batch), "tokens": Range(1, 1, 1), **slots}
    return Contract(inputs, outputs, (Profile("prefill", prefill), Profile("decode", decode)))


def vision_contract(
    config: ModelConfig, limits: EngineLimits, dtype: str, *, importance: bool = False
) -> Contract:
    """The vision tower's contract; rows beyond ``patch_lengths`` are padding.

    ``importance`` adds the post-RoPE queries and keys of one layer, from which the runtime computes
    how much attention each patch receives.
    """
    vision = config.vision
    patches = ("images", f"{vision.merge_unit}*visual_tokens")
    inputs = (
        TensorSpec("patches", dtype, (*patches, vision.patch_dim)),
        TensorSpec("rope_cos", dtype, (*patches, vision.head_dim // 2)),
        TensorSpec("rope_sin", dtype, (*patches, vision.head_dim // 2)),
        TensorSpec("pos_indices", "int64", (*patches, 4)),
        TensorSpec("pos_weights", dtype, (*patches, 4)),
        TensorSpec("patch_lengths", "int64", ("images",)),
    )
    planes = (f"deepstack_{plane}" for plane in range(config.num_deepstack))
    shape = ("images", "visual_tokens", vision.out_hidden_size)
    heads = ("images", vision.num_heads, patches[1], vision.head_dim)
    watched = ("importance_q", "importance_k") if importance else ()
    outputs = (
        *(TensorSpec(name, dtype, shape) for name in ("embeds", *planes)),
        *(TensorSpec(name, dtype, heads) for name in watched),
    )
    encode = {"images": _up_to(limits.max_images), "visual_tokens": _up_to(limits.max_image_tokens)}
    return Contract(inputs, outputs, (Profile("encode", encode),))


def _up_to(limit: int) -> Range:
    return Range(1, max(1, limit // 2), limit)
