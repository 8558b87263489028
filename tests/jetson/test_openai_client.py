"""The official client against a live server with the bundled model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from edgevlm.accuracy.tiny.heldout import HeldOutSample, heldout
from edgevlm.runtime.tokenizer import Tokenizer

from .conftest import image_part
from .live import LiveService

MODEL = "tiny"
SCHEMA = {
    "type": "object",
    "properties": {
        "shape": {"enum": ["circle", "square", "cross"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "required": ["shape", "count"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look at a place",
        "parameters": {
            "type": "object",
            "properties": {"where": {"enum": ["left", "right"]}},
            "required": ["where"],
            "additionalProperties": False,
        },
    },
}


def content(sample: HeldOutSample) -> list[dict[str, Any]]:
    images = [image_part(image) for image in sample.images]
    return [*images, {"type": "text", "text": sample.question}]


def ask(live: LiveService, sample: HeldOutSample, **fields: Any) -> Any:
    return live.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": content(sample)}],
        temperature=0,
        **fields,
    )


@pytest.fixture(scope="module")
def shape() -> HeldOutSample:
    return next(heldout("shape", "s256", 1, seed=3))


def test_chat_with_one_image_and_with_four(tiny: LiveService, shape: HeldOutSample) -> None:
    answer = ask(tiny, shape)
    assert answer.choices[0].message.content == shape.answer
    assert answer.choices[0].finish_reason == "stop"
    four = next(heldout("read", "m4", 1, seed=3))
    assert ask(tiny, four).choices[0].message.content == four.answer


def test_images_keep_their_place_among_the_text(tiny: LiveService) -> None:
    sample = next(heldout("which", "m2", 1, seed=4))
    first, second = map(image_part, sample.images)
    one, two, three = ({"type": "text", "text": text} for text in ("one ", " two ", " three"))
    messages = [{"role": "user", "content": [one, first, two, second, three]}]
    ids = httpx.post(f"{tiny.url}/tokenize", json={"messages": messages}).json()["tokens"]
    tokenizer = Tokenizer.from_directory(Path(tiny.service.settings.llm))
    text = tokenizer.decode(ids, skip_special_tokens=False)
    shown = re.sub(r"<.vision_start.>(<.image_pad.>)+<.vision_end.>", "IMAGE", text)
    assert "one IMAGE two IMAGE three" in shown


def test_video_frames_become_time_stamped_groups(tiny: LiveService) -> None:
    sample = next(heldout("shape", "s256", 1, seed=5))
    frame = image_part(sample.images[0])["image_url"]["url"]
    video = {"type": "video", "frames": [frame] * 4, "fps": 2.0}
    answer = tiny.chat([video, {"type": "text", "text": "what"}], return_visual_tokens=True)
    entries = answer.json()["visual_tokens"]
    assert [entry["seconds"] for entry in entries] == [0.25, 1.25]


def test_streaming_with_usage(tiny: LiveService, shape: HeldOutSample) -> None:
    chunks = list(ask(tiny, shape, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == shape.answer
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage.prompt_tokens > 64
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_json_schema_is_followed_whatever_the_model_would_say(
    tiny: LiveService, shape: HeldOutSample
) -> None:
    schema = {"name": "scene", "schema": SCHEMA, "strict": True}
    answer = ask(tiny, shape, response_format={"type": "json_schema", "json_schema": schema})
    value = json.loads(answer.choices[0].message.content)
    assert value["shape"] in SCHEMA["properties"]["shape"]["enum"]  # type: ignore[index]
    assert isinstance(value["count"], int)
    assert answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look"}}])
def test_a_required_tool_is_called(tiny: LiveService, shape: HeldOutSample, choice: Any) -> None:
    answer = ask(tiny, shape, tools=[TOOL], tool_choice=choice, parallel_tool_calls=False)
    (call,) = answer.choices[0].message.tool_calls
    assert answer.choices[0].finish_reason == "tool_calls"
    assert call.function.name == "look"
    assert json.loads(call.function.arguments)["where"] in ("left", "right")


def test_logprobs_describe_the_greedy_choice(tiny: LiveService, shape: HeldOutSample) -> None:
    answer = ask(tiny, shape, logprobs=True, top_logprobs=3)
    entries = answer.choices[0].logprobs.content
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == shape.answer
    for entry in entries:
        assert len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].logprob == entry.logprob <= 0
    plain = ask(tiny, shape)
    assert plain.choices[0].logprobs is None


def test_usage_reports_both_counts_and_the_skip_reason(
    tiny: LiveService, shape: HeldOutSample
) -> None:
    pruning = {"algorithm": "dart", "reduction_ratio": 0.5}
    extra = {"visual_pruning": pruning, "return_visual_tokens": True}
    answer = ask(tiny, shape, extra_body=extra)
    report = answer.usage.visual_pruning
    assert (report["visual_tokens_before"], report["visual_tokens_after"]) == (64, 32)
    assert answer.usage.prompt_tokens == report["prompt_tokens_before"] - 32
    assert report["skipped"] is None
    (grid,) = answer.visual_tokens
    assert (grid["rows"], grid["columns"], len(grid["kept"])) == (8, 8, 32)
    assert set(grid["kept"]) <= set(range(64))
    few = {"visual_pruning": {**pruning, "min_visual_tokens": 65}}
    assert ask(tiny, shape, extra_body=few).usage.visual_pruning["skipped"].startswith("fewer")


def test_an_automatic_ratio_says_what_it_chose(tiny: LiveService, shape: HeldOutSample) -> None:
    pruning = {"reduction_ratio": "auto", "auto_max": 0.25}
    report = ask(tiny, shape, extra_body={"visual_pruning": pruning}).usage.visual_pruning
    (image,) = report["adapted"]
    assert 0.1 <= image["reduction_ratio"] <= 0.25
    assert 48 <= report["visual_tokens_after"] <= 58


def test_seeds_repeat_and_stop_strings_stop(tiny: LiveService) -> None:
    def sampled(seed: int, **fields: Any) -> str:
        body = {"prompt": "the shape", "seed": seed, "temperature": 1.5, "max_tokens": 12, **fields}
        answer = httpx.post(f"{tiny.url}/v1/completions", json=body).json()
        text: str = answer["choices"][0]["text"]
        return text

    assert sampled(7) == sampled(7)
    assert len({sampled(seed) for seed in range(6)}) > 1
    full = sampled(7)
    stop = full[2:4]
    assert sampled(7, stop=[stop]) == full[: full.index(stop)]


def test_completions_and_models(tiny: LiveService) -> None:
    client = tiny.client
    answer = client.completions.create(model=MODEL, prompt="a circle", max_tokens=4, logprobs=1)
    assert answer.object == "text_completion" and answer.usage is not None
    assert answer.usage.completion_tokens <= 4
    chunks = client.completions.create(model=MODEL, prompt="a circle", max_tokens=4, stream=True)
    assert [c.choices[0].finish_reason for c in chunks][-1] in ("stop", "length")
    assert client.models.list().data[0].id == client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4")
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="gpt-4", prompt="a")


def test_a_prompt_that_does_not_fit_names_both_numbers(tiny: LiveService) -> None:
    sample = next(heldout("shape", "s512", 1, seed=3))
    parts: Any = [*([image_part(sample.images[0])] * 6), {"type": "text", "text": "what"}]
    with pytest.raises(openai.BadRequestError, match=r"the prompt has 15\d\d tokens.*takes 1280"):
        tiny.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": parts}]
        )
