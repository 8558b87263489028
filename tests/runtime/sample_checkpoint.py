"""The text and configuration files of a small checkpoint, without weights, for these tests."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)

TEMPLATE = """\
{%- macro show(content) -%}
    {%- if content is string %}{{ content }}{% else %}
        {%- for part in content %}
            {%- if part.type == "image" or "image" in part -%}
                <|vision_start|><|image_pad|><|vision_end|>
            {%- elif part.type == "video" or "video" in part -%}
                <|vision_start|><|video_pad|><|vision_end|>
            {%- elif "text" in part -%}
                {{ part.text }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- if messages[0].role == "system" and messages[0].content is not string %}
    {{- raise_exception("a system message must be plain text") }}
{%- endif %}
{%- for message in messages %}
    {{- "<|im_start|>" + message.role + "\\n" + show(message.content) + "<|im_end|>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|im_start|>assistant\\n" }}
{%- endif %}
"""

IMAGE = {
    "size": {"shortest_edge": 65536, "longest_edge": 1048576},
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
VIDEO = {**IMAGE, "size": {"shortest_edge": 4096, "longest_edge": 524288}}


def make_tokenizer() -> Tokenizer:
    """Byte-level BPE with Qwen's control tokens, and an added token that is none."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(
        ["user assistant system seconds what is in the image?"] * 4, trainer
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken("<think>", special=False)])
    return tokenizer


def model_config(tokenizer: Tokenizer) -> dict[str, object]:
    return {
        "model_type": "qwen3_vl",
        "image_token_id": tokenizer.token_to_id("<|image_pad|>"),
        "video_token_id": tokenizer.token_to_id("<|video_pad|>"),
        "vision_start_token_id": tokenizer.token_to_id("<|vision_start|>"),
        "vision_end_token_id": tokenizer.token_to_id("<|vision_end|>"),
        "text_config": {
            "vocab_size": tokenizer.get_vocab_size(),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "head_dim": 16,
            "rope_parameters": {"rope_theta": 10000.0, "mrope_section": [4, 2, 2]},
        },
        "vision_config": {
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 32,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0],
        },
    }


def write_checkpoint(folder: Path) -> Path:
    """Write every file the processor reads, and return ``folder``."""
    tokenizer = make_tokenizer()
    ends = [tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")]
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    for name, content in (
        ("config.json", model_config(tokenizer)),
        ("generation_config.json", {"eos_token_id": ends}),
        ("tokenizer_config.json", {"eos_token": "<|im_end|>", "bos_token": None}),
        ("preprocessor_config.json", IMAGE),
        ("video_preprocessor_config.json", VIDEO),
    ):
        (folder / name).write_text(json.dumps(content))
    return folder
