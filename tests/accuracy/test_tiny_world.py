"""Scenes, questions, renderer, tokenizer and held-out prompts."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from edgevlm.accuracy.tiny import BUCKETS, TASKS, build_tokenizer, heldout, tasks_of, write_assets
from edgevlm.accuracy.tiny.chat import MAX_ANSWER, ChatEncoder
from edgevlm.accuracy.tiny.lexicon import COLOURS, LABEL_CHARACTERS, LIGHT_BACKGROUND_IDS, PALETTE
from edgevlm.accuracy.tiny.packing import pack_scene
from edgevlm.accuracy.tiny.render import render, render_tables
from edgevlm.accuracy.tiny.samples import draw_sample
from edgevlm.accuracy.tiny.scenes import Item, Scene
from edgevlm.accuracy.tiny.tables import TableLimits, draw_table
from edgevlm.models import load_config

CASES = [(bucket, task) for bucket in BUCKETS for task in tasks_of(bucket)]


def _draw(scene: Scene, height: int = 96, width: int = 96) -> np.ndarray:
    head, cells = pack_scene(scene, len(scene.items))
    tables = render_tables()
    pixels = render(
        torch.from_numpy(head)[None], torch.from_numpy(cells)[None], height, width, tables
    )
    return pixels[0].numpy()


def test_a_shape_is_drawn_in_its_cell_and_colour() -> None:
    colour = list(COLOURS).index("red")
    items: list[Item | None] = [None] * 9
    items[5] = Item(colour=colour, shape=0)
    image = _draw(Scene(3, 3, tuple(items), LIGHT_BACKGROUND_IDS[0]))
    assert np.abs(image[48, 80].astype(int) - COLOURS["red"]).max() < 8
    paper = np.array(PALETTE[LIGHT_BACKGROUND_IDS[0]])
    outside = image.astype(int).copy()
    outside[32:64, 64:] = paper
    assert np.abs(outside - paper).max() < 16


def test_batches_draw_what_single_scenes_draw() -> None:
    bucket = BUCKETS["t256"]
    rng = random.Random(0)
    scenes = [draw_table(rng, TableLimits(5, 5)) for _ in range(3)]
    heads, cells = zip(*(pack_scene(s, bucket.cells) for s in scenes), strict=True)
    together = render(
        torch.from_numpy(np.stack(heads)),
        torch.from_numpy(np.stack(cells)),
        128,
        160,
        render_tables(),
    )
    assert together.shape == (3, 128, 160, 3)
    for image, scene in zip(together.numpy(), scenes, strict=True):
        assert np.array_equal(image, _draw(scene, 128, 160))


def test_items_and_scenes_are_checked() -> None:
    with pytest.raises(ValueError, match="either a shape or a text"):
        Item(colour=0)
    with pytest.raises(ValueError, match="outside"):
        Item(colour=0, text="O!")
    with pytest.raises(ValueError, match="items in a 3x3 grid"):
        Scene(3, 3, (None,), 0)


@pytest.mark.parametrize(("bucket", "task"), CASES)
def test_held_out_prompts_are_deterministic(bucket: str, task: str) -> None:
    first, again = (next(heldout(task, bucket, 1, seed=5)) for _ in range(2))
    assert (first.question, first.answer) == (again.question, again.answer)
    assert len(first.images) == BUCKETS[bucket].images == len(first.content) - 1
    shape = (BUCKETS[bucket].height, BUCKETS[bucket].width, 3)
    for image, same in zip(first.images, again.images, strict=True):
        assert image.dtype == np.uint8
        assert image.shape == shape
        assert np.array_equal(image, same)


def test_splits_differ_and_unknown_requests_are_refused() -> None:
    bucket = BUCKETS["s256"]
    train, held = (
        draw_sample(bucket, 0, split=split, seed=1, questions=2) for split in ("train", "heldout")
    )
    assert train != held
    with pytest.raises(ValueError, match="no bucket"):
        next(heldout("read", "s257", 1))
    with pytest.raises(ValueError, match="has no task"):
        next(heldout("table", "s256", 1))


def test_every_branch_fits_its_bucket() -> None:
    encoder = ChatEncoder(build_tokenizer())
    for bucket in BUCKETS.values():
        for index in range(100):
            sample = draw_sample(bucket, index, split="heldout", seed=2, questions=6)
            for question in sample.questions:
                assert question.task in TASKS
                branch = encoder.branch(question)
                assert len(branch.tokens) <= bucket.branch_tokens
                assert len(branch.tokens) - branch.start <= MAX_ANSWER


def test_tokenizer_keeps_characters_apart_and_words_whole() -> None:
    tokenizer = build_tokenizer()
    assert 500 <= tokenizer.get_vocab_size() <= 640
    for word in ("circle", " circle", "red", " red", "What", "assistant", "image", " image"):
        assert len(tokenizer.encode(word).ids) == 1, word
    assert len(tokenizer.encode(LABEL_CHARACTERS).ids) == len(LABEL_CHARACTERS)
    text = "Grüße, 東京! 42 <|im_end|>\n"
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_prompts_are_what_the_chat_template_renders(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    write_assets(tmp_path, build_tokenizer())
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    encoder = ChatEncoder(build_tokenizer())
    sample = next(heldout("which", "m2", 1))
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": list(sample.content)}],
        tokenize=False,
        add_generation_prompt=True,
    )
    tokens = BUCKETS["m2"].token_grid[0] * BUCKETS["m2"].token_grid[1]
    expanded = text.replace("<|image_pad|>", "<|image_pad|>" * tokens)
    question = draw_sample(
        BUCKETS["m2"], 0, split="heldout", seed=0, questions=1, tasks=("which",)
    ).questions[0]
    branch = encoder.branch(question)
    ours = [*encoder.prefix(BUCKETS["m2"]), *branch.tokens[: branch.start]]
    assert tokenizer(expanded).input_ids == ours
    assert tokenizer.eos_token == "<|im_end|>"
    assert load_config(tmp_path).image_token_id == tokenizer.convert_tokens_to_ids("<|image_pad|>")


def test_chat_template_renders_system_video_and_plain_text(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    write_assets(tmp_path, build_tokenizer())
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "video"}, {"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": "yes"},
    ]
    assert tokenizer.apply_chat_template(messages, tokenize=False) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\n<|vision_start|><|video_pad|><|vision_end|>Hello<|im_end|>\n"
        "<|im_start|>assistant\nyes<|im_end|>\n"
    )
