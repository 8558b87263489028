"""The trainer's batched, branching sequences are the real model's single-turn prompts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgevlm.accuracy.tiny.architecture import image_processor_config, model_config
from edgevlm.accuracy.tiny.buckets import BUCKETS
from edgevlm.accuracy.tiny.render import render, render_tables
from edgevlm.accuracy.tiny.samples import draw_sample
from edgevlm.accuracy.tiny.tokenizer import build_tokenizer
from tiny_training.chunks import ChunkMaker, encode_samples
from tiny_training.layout import branch_mask, build_layout
from tiny_training.network import (
    BatchOperators,
    TinyNetwork,
    from_hugging_face,
    to_hugging_face,
    to_patches,
)
from tiny_training.objective import Objective
from tiny_training.pool import Pool
from tiny_training.session import tiny_config

transformers = pytest.importorskip("transformers")


def _image_processor():
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
        Qwen2VLImageProcessorPil,
    )

    options = image_processor_config()
    return Qwen2VLImageProcessorPil(
        **{k: v for k, v in options.items() if k not in ("image_processor_type", "processor_class")}
    )


@pytest.fixture(scope="module")
def network() -> TinyNetwork:
    torch.manual_seed(0)
    network = TinyNetwork(tiny_config()[1])
    with torch.no_grad():
        for parameter in network.parameters():
            # Norms and biases start at constants, which would hide a mix-up.
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return network.eval()


@pytest.fixture(scope="module")
def reference(network: TinyNetwork):
    tokenizer = build_tokenizer()
    config = transformers.Qwen3VLConfig(
        **model_config(tokenizer.get_vocab_size(), tokenizer.token_to_id)
    )
    model = transformers.Qwen3VLForConditionalGeneration(config).float().eval()
    missing = model.load_state_dict(to_hugging_face(network.state_dict()), strict=False)
    assert missing.missing_keys == ["lm_head.weight"]
    assert not missing.unexpected_keys
    model.tie_weights()
    return model


def test_weight_names_round_trip(network: TinyNetwork) -> None:
    state = from_hugging_face(to_hugging_face(network.state_dict()))
    assert state.keys() == network.state_dict().keys()


@pytest.mark.parametrize("name", ["s256", "w384", "m2", "t384"])
@torch.no_grad()
def test_logits_equal_transformers(name: str, network: TinyNetwork, reference) -> None:
    bucket, questions = BUCKETS[name], 3
    encoder, config = tiny_config()
    layout = build_layout(bucket, questions, encoder, config)
    tables = render_tables()
    chunk = ChunkMaker(questions, 3, "heldout").make(bucket, 0, 2)
    pool = Pool(bucket, questions, 2, "cpu")
    pool.add(chunk)
    batch = pool.slice(0, 2)
    objective = Objective(layout, tables, torch.float32)
    logits, targets, counts = objective._predict(network, batch)

    processor = _image_processor()
    for prompt in range(2):
        images = render(
            batch.heads[prompt], batch.cells[prompt], bucket.height, bucket.width, tables
        )
        pixels = processor(images=[image.numpy() for image in images], return_tensors="pt")
        for question in range(questions):
            start, answer = (
                int(batch.starts[prompt, question]),
                int(batch.lengths[prompt, question]),
            )
            branch = batch.tokens[prompt, question, : start + answer].tolist()
            ids = torch.tensor([[*encoder.prefix(bucket), *branch]])
            output = reference(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                mm_token_type_ids=(ids == config.image_token_id).int(),
                pixel_values=pixels["pixel_values"],
                image_grid_thw=pixels["image_grid_thw"],
            ).logits[0, -answer - 1 : -1]
            ours = logits[prompt, question, :answer]
            assert torch.equal(targets[prompt, question, :answer], ids[0, -answer:])
            assert counts[prompt, question].sum() == answer
            torch.testing.assert_close(ours, output, atol=1e-3, rtol=1e-3)


def test_patches_equal_the_image_processor() -> None:
    image = np.random.default_rng(0).integers(0, 256, (256, 320, 3), dtype=np.uint8)
    theirs = _image_processor()(images=[image], return_tensors="pt")["pixel_values"]
    ours = to_patches(torch.from_numpy(image)[None], merge=2, patch=16, frames=2)[0]
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_branches_do_not_see_each_other() -> None:
    mask = branch_mask(prefix=2, branch=2, questions=2, length=8)
    assert mask.int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0, 0],
        [1, 1, 0, 0, 1, 0, 0, 0],
        [1, 1, 0, 0, 1, 1, 0, 0],
        [1, 1, 0, 0, 0, 0, 1, 0],
        [1, 1, 0, 0, 0, 0, 1, 1],
    ]


def test_grouped_heads_attend_like_repeated_ones() -> None:
    q, kv = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8)
    out = BatchOperators().attend(q, kv, kv, 0)
    whole = kv[:, [0, 0, 1, 1]]
    torch.testing.assert_close(
        out, torch.nn.functional.scaled_dot_product_attention(q, whole, whole)
    )


def test_encoded_samples_reject_a_branch_that_is_too_long() -> None:
    import dataclasses

    bucket = dataclasses.replace(BUCKETS["s256"], branch_tokens=10)
    encoder, _ = tiny_config()
    sample = draw_sample(bucket, 0, split="train", seed=1, questions=2)
    with pytest.raises(ValueError, match="more than the 10"):
        encode_samples(bucket, [sample], 1, 2, encoder)
