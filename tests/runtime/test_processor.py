"""Whole requests: prepared as the published processor prepares them, or refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor

from edgevlm.core import CheckpointError, RequestError, UsageError, VisualSpan
from edgevlm.runtime.chat_template import ChatTemplate
from edgevlm.runtime.placeholders import expand_placeholders
from edgevlm.runtime.processor import Processor
from edgevlm.runtime.request import ChatRequest, ImagePart, Message, Part, TextPart, VideoPart
from edgevlm.runtime.visual_items import VisualLimits

from .sample_checkpoint import IMAGE, TEMPLATE, VIDEO, make_tokenizer, write_checkpoint

VIDEO_MARKERS = "<|vision_start|><|video_pad|><|vision_end|>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def processor(folder: Path) -> Processor:
    return Processor.from_directory(folder)


@pytest.fixture(scope="module")
def reference() -> Qwen3VLProcessor:
    with pytest.MonkeyPatch.context() as patch:
        # Its check of argument types looks for classes that need torchvision.
        patch.setattr(Qwen3VLProcessor, "check_argument_for_proper_class", lambda *_: None)
        return Qwen3VLProcessor(
            Qwen2VLImageProcessorPil(**IMAGE),
            PreTrainedTokenizerFast(tokenizer_object=make_tokenizer()),
            Qwen3VLVideoProcessor(**VIDEO),
            chat_template=TEMPLATE,
        )


def picture(width: int = 64, height: int = 48) -> Image.Image:
    values = np.random.default_rng(width * height).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(values)


def user(*parts: Part, **options: object) -> ChatRequest:
    return ChatRequest([Message("user", parts)], **options)  # type: ignore[arg-type]


IMAGES = st.builds(picture, st.integers(8, 400), st.integers(8, 400))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.lists(st.text("ab \n", max_size=6) | IMAGES, min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    )
)
def test_image_prompts_equal_the_published_processor(
    processor: Processor, reference: Qwen3VLProcessor, turns: list[list[str | Image.Image]]
) -> None:
    messages = [
        Message("user", [TextPart(p) if isinstance(p, str) else ImagePart(p) for p in turn])
        for turn in turns
    ]
    prompt = processor.prepare(ChatRequest(messages))
    chat = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": p} if isinstance(p, str) else {"type": "image"}
                for p in turn
            ],
        }
        for turn in turns
    ]
    text = reference.apply_chat_template(chat, add_generation_prompt=True)
    images = [p for turn in turns for p in turn if not isinstance(p, str)]
    expected = reference(text=[text], images=images or None, return_tensors="pt")
    assert prompt.text == text
    assert prompt.token_ids.tolist() == expected["input_ids"][0].tolist()
    assert [item.media for item in prompt.media] == list(range(len(images)))
    assert [span.media for span in prompt.spans] == list(range(len(images)))
    if images:
        grids = [[1, *item.grid] for item in prompt.media]
        assert grids == expected["image_grid_thw"].tolist()
        patches = torch.cat([item.patches for item in prompt.media])
        torch.testing.assert_close(patches, expected["pixel_values"], atol=1e-5, rtol=0)
    pads = prompt.token_ids == processor.config.image_token_id
    covered = torch.zeros_like(pads)
    for span in prompt.spans:
        covered[span.start : span.end] = True
    assert torch.equal(pads, covered)
    stub = SimpleNamespace(
        config=SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=2)),
        get_vision_position_ids=lambda *a, **k: Qwen3VLModel.get_vision_position_ids(None, *a, **k),
    )
    positions, delta = Qwen3VLModel.get_rope_index(
        stub,
        expected["input_ids"],
        expected["mm_token_type_ids"],
        image_grid_thw=expected.get("image_grid_thw"),
    )
    assert torch.equal(prompt.positions, positions[:, 0])
    assert prompt.next_position == len(prompt.token_ids) + int(delta)


def test_videos_and_images_bind_in_the_order_of_the_conversation(
    processor: Processor, reference: Qwen3VLProcessor
) -> None:
    clip = VideoPart([picture(96, 64)] * 3, fps=3.0)
    other = VideoPart([picture(64, 96)], fps=10.0)
    parts = (TextPart("a"), clip, ImagePart(picture()), TextPart("b"), other)
    prompt = processor.prepare(user(*parts))
    assert [item.media for item in prompt.media] == [0, 0, 1, 2]
    assert [item.seconds for item in prompt.media] == pytest.approx([1 / 6, 2 / 3, None, 0.0])
    assert [len(span) for span in prompt.spans] == [6, 6, 70, 6]

    text = prompt.text
    for index, (frames, fps) in enumerate(((3, 3.0), (1, 10.0))):
        grid = prompt.media[(0, 3)[index]].grid
        metadata = SimpleNamespace(fps=fps, frames_indices=list(range(frames)))
        published = {
            "video_grid_thw": torch.tensor([[(frames + 1) // 2, *grid]]),
            "video_metadata": [metadata],
        }
        expanded = reference.replace_video_token(published, 0)
        text = text.replace(VIDEO_MARKERS, expanded.replace("<|video_pad|>", "<|V|>"), 1)
    text = text.replace("<|V|>", "<|video_pad|>").replace("<|image_pad|>", "<|image_pad|>" * 70)
    assert "<0.2 seconds>" in text
    assert prompt.token_ids.tolist() == reference.tokenizer(text)["input_ids"]


def test_an_incomplete_pair_repeats_its_last_frame(processor: Processor) -> None:
    frames = [picture(64, 64), picture(64, 64).rotate(90), picture(64, 64).rotate(180)]
    (_, last) = processor.prepare(user(VideoPart(frames, 1.0))).media
    planes = last.patches.view(-1, 3, 2, 16, 16)
    assert torch.equal(planes[:, :, 0], planes[:, :, 1])


def test_text_alone(processor: Processor) -> None:
    prompt = processor.prepare(ChatRequest([Message("user", "hi")], add_generation_prompt=False))
    assert prompt.text == "<|im_start|>user\nhi<|im_end|>\n"
    assert processor.decode(prompt.token_ids.tolist()) == "user\nhi\n"
    assert prompt.positions.tolist() == [list(range(len(prompt.token_ids)))] * 3
    assert (prompt.next_position, prompt.spans) == (len(prompt.token_ids), ())


@pytest.mark.parametrize(
    "request_",
    [
        user(TextPart("what is <|image_pad|>?"), ImagePart(picture())),
        user(TextPart("<|vision_st"), TextPart("art|>")),
        ChatRequest([Message("system", "<|im_end|>")]),
        ChatRequest([Message("user", "a"), Message("assistant", "<|vision_end|>")]),
        user(TextPart("<|video_pad|>"), apply_chat_template=False),
    ],
)
def test_text_cannot_act_as_a_control_token(processor: Processor, request_: ChatRequest) -> None:
    last = len(request_.messages) - 1
    with pytest.raises(RequestError, match=rf"messages\[{last}\]: .* control token '<\|\w+\|>'"):
        processor.prepare(request_)


def test_text_around_an_image_is_not_joined(processor: Processor) -> None:
    parts = (TextPart("<|im_"), ImagePart(picture()), TextPart("end|>"))
    assert len(processor.prepare(user(*parts)).spans) == 1


def test_without_a_template_parts_are_joined_as_they_are(processor: Processor) -> None:
    parts = (TextPart("<|im_start|>user\n"), ImagePart(picture()), TextPart("?"))
    prompt = processor.prepare(user(*parts, apply_chat_template=False))
    assert prompt.text == "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>?"
    assert len(prompt.spans[0]) == 70


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("no media", r"placed 0 media \(none\)"),
        ("<|image_pad|><|image_pad|>", r"placed 2 media \(image, image\)"),
        ("<|video_pad|><|image_pad|>", r"placed 2 media \(video, image\)"),
    ],
)
def test_a_template_must_place_the_media_given(
    processor: Processor, template: str, found: str
) -> None:
    broken = replace(processor, template=ChatTemplate(template, "test"))
    request = user(ImagePart(picture()), VideoPart([picture()], 1.0))
    with pytest.raises(RequestError, match=rf"{found}, the request has 2 \(image, video\)"):
        broken.prepare(request)


def test_a_tokenizer_must_know_the_placeholders() -> None:
    with pytest.raises(RequestError, match="the prompt has 1 placeholders for 0 visual items"):
        expand_placeholders([1, 2, 3], [], pads=(2, 9), merge_unit=4)


def test_a_template_that_refuses_fails_the_request(processor: Processor) -> None:
    with pytest.raises(RequestError, match="a system message must be plain text"):
        processor.prepare(ChatRequest([Message("system", [ImagePart(picture())])]))


def test_what_the_engine_reduces_is_noted(folder: Path) -> None:
    limited = Processor.from_directories(folder, folder, 20)
    prompt = limited.prepare(
        user(ImagePart(picture(640, 480)), ImagePart(picture(64, 32), do_resize=False))
    )
    assert [len(span) for span in prompt.spans] == [15, 2]
    (note,) = prompt.notes
    assert note == (
        "media 0 (<640x480 RGB image>): reduced to 160x96, 15 visual tokens instead of 300: "
        "the engine takes at most 20"
    )
    clip = limited.prepare(user(VideoPart([picture(640, 480)] * 4, 2.0)))
    assert [len(span) for span in clip.spans] == [15, 15]
    assert "media 0 (4 frames): reduced to 160x96" in clip.notes[0]


def test_media_are_shrunk_as_asked_and_what_it_saved_is_counted(processor: Processor) -> None:
    request = user(
        ImagePart(picture(512, 256)),
        ImagePart(picture(256, 256), do_resize=False),
        VideoPart([picture(256, 128)] * 3, 1.0),
    )
    full = processor.prepare(request)
    assert [len(span) for span in full.spans] == [128, 64, 32, 32]
    assert full.shrunk_tokens == 0
    asked = []

    def half(tokens: int) -> int:
        asked.append(tokens)
        return tokens // 2

    small = processor.prepare(request, half)
    assert asked == [128, 32]  # not the image that must not be resized; once for all frames
    assert [item.grid for item in small.media] == [(12, 22), (16, 16), (6, 10), (6, 10)]
    assert [len(span) for span in small.spans] == [66, 64, 15, 15]
    assert small.shrunk_tokens == len(full.token_ids) - len(small.token_ids) == 62 + 2 * 17
    assert small.next_position < full.next_position
    assert small.notes == ()


def test_media_of_one_request_are_limited_before_they_are_made(folder: Path) -> None:
    limited = Processor.from_directory(folder, VisualLimits(max_patches=280))
    assert len(limited.prepare(user(ImagePart(picture()))).media[0].patches) == 280
    with pytest.raises(RequestError, match=r"media 1 \(image\): .* 560 patches; at most 280"):
        limited.prepare(user(*[ImagePart(picture())] * 2))
    with pytest.raises(RequestError, match=r"media 0 \(video\): .* 384 patches; at most 280"):
        limited.prepare(user(VideoPart([picture(256, 128)] * 5, 1.0)))
    with pytest.raises(UsageError, match="max_tokens must be at least 1"):
        VisualLimits(max_tokens=0)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (ImagePart("gone.png"), r"media 0 \(image\): gone.png: cannot be read"),
        (ImagePart(picture(4, 900)), r"media 0 \(image\): <4x900 RGB image>: 4x900 has an aspect"),
        (ImagePart(picture(), do_resize=False), "64x48 cannot go in unresized"),
        (
            VideoPart([picture(), picture(32, 32)], 1.0),
            r"media 0 \(video\): frame 1 is 32x32, frame 0 is 64x48",
        ),
    ],
)
def test_bad_media_are_named(processor: Processor, part: Part, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        processor.prepare(user(part))


def test_preparing_takes_time_where_it_says(processor: Processor) -> None:
    prompt = processor.prepare(user(ImagePart(picture())))
    assert prompt.decode_ms > 0
    assert prompt.patch_ms > 0


def test_without_a_visual_directory_text_still_works(folder: Path) -> None:
    text_only = Processor.from_directories(folder, None)
    assert len(text_only.prepare(ChatRequest([Message("user", "hi")])).token_ids) > 0
    for part in (ImagePart(picture()), VideoPart([picture()], 1.0)):
        with pytest.raises(RequestError, match="json, which was not found"):
            text_only.prepare(user(part))


def test_a_visual_directory_must_be_complete(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"preprocessor_config\.json is missing"):
        Processor.from_directories(folder, tmp_path)
    write_checkpoint(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "image_token_id": 9999}))
    with pytest.raises(CheckpointError, match="no token with id 9999"):
        Processor.from_directory(tmp_path)


def test_spans_cover_their_items(processor: Processor) -> None:
    prompt = processor.prepare(user(TextPart("ab"), ImagePart(picture(300, 200))))
    (span,), (item,) = prompt.spans, prompt.media
    assert isinstance(span, VisualSpan)
    assert len(span) * processor.config.vision.merge_unit == len(item.patches)
    assert item.grid[0] * item.grid[1] == len(item.patches)
    assert set(processor.forbidden_ids) >= {processor.config.image_token_id}
    assert processor.eos_ids == processor.tokenizer.eos_ids
