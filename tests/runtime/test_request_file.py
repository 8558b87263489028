"""Request files: the format, our additions, and errors that say where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgevlm.core import RequestError, UsageError
from edgevlm.runtime.request import ChatRequest, ImagePart, SamplingParams, TextPart, VideoPart
from edgevlm.runtime.request_file import RequestFile, read_request_file

HELLO = [{"role": "user", "content": "hello"}]


def read(folder: Path, document: Any) -> RequestFile:
    path = folder / "requests.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return read_request_file(path)


def only(folder: Path, request: Any, **common: Any) -> ChatRequest:
    (found,) = read(folder, {"requests": [request], **common}).requests
    if isinstance(found, RequestError):
        raise found
    return found


def test_a_full_file_of_the_format_is_accepted(tmp_path: Path) -> None:
    for name in ("a.jpg", "0.jpg", "1.jpg"):
        (tmp_path / name).touch()
    document = {
        "batch_size": 2,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "max_generate_length": 64,
        "sampling_seed": 3,
        "spec_proposal_sampling": "auto",
        "num_logprobs": 0,
        "apply_chat_template": True,
        "add_generation_prompt": True,
        "enable_thinking": False,
        "logit_bias": {},
        "guided_decoding": {},
        "context_cache_lookup_policy": "use_cache",
        "available_lora_weights": {"unused": "path"},
        "requests": [
            {
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {
                        "role": "user",
                        "content": [
                            {"type": "image", "image": "a.jpg", "do_resize": False},
                            {"type": "video", "frames": ["0.jpg", "1.jpg"], "fps": 4.0},
                            {"type": "text", "text": "What is this?"},
                        ],
                    },
                ],
                "lora_name": "",
                "save_system_prompt_kv_cache": False,
                "disable_spec_decode": True,
                "sampling_seed": 1,
                "logit_bias": {},
                "num_logprobs": 0,
                "guided_decoding": None,
                "stop": ["###"],
            },
            HELLO,  # a request may be only its conversation
        ],
    }
    parsed = read(tmp_path, document)
    first, second = parsed.requests
    assert parsed.batch_size == 2
    assert parsed.warnings == ()
    assert isinstance(first, ChatRequest)
    assert first.messages[1].content == (
        ImagePart(str(tmp_path / "a.jpg"), do_resize=False),
        VideoPart([str(tmp_path / "0.jpg"), str(tmp_path / "1.jpg")], 4.0),
        TextPart("What is this?"),
    )
    assert first.sampling == SamplingParams(0.5, 0.9, 40, 64, seed=1)
    assert first.stop == ("###",)
    assert first.enable_thinking is False
    assert isinstance(second, ChatRequest)
    assert second.sampling.seed == 3
    assert second.messages[0].content == "hello"
    assert [r.id for r in (first, second)] == ["0", "1"]


def test_defaults_are_those_of_the_format(tmp_path: Path) -> None:
    request = only(tmp_path, {"messages": HELLO})
    assert request.sampling == SamplingParams(1.0, 0.8, 50, 256)
    assert (request.apply_chat_template, request.add_generation_prompt) == (True, True)
    assert (request.stop, request.visual_pruning, request.enable_thinking) == ((), None, None)


def test_a_request_may_have_its_own_settings(tmp_path: Path) -> None:
    pruning = {"algorithm": "dart", "reduction_ratio": 0.5}
    own = {"temperature": 0, "top_p": 1, "top_k": 0, "max_generate_length": 8}
    request = only(
        tmp_path,
        {"messages": HELLO, "id": "mine", "visual_pruning": pruning, "stop": "x", **own},
        temperature=0.7,
    )
    assert request.sampling == SamplingParams(0, 1, 0, 8)
    assert (request.id, request.visual_pruning, request.stop) == ("mine", pruning, ("x",))


def test_the_default_system_prompt_is_for_requests_without_one(tmp_path: Path) -> None:
    own = [{"role": "system", "content": "mine"}, *HELLO]
    common = {"default_system_prompt": "shared"}
    parsed = read(tmp_path, {"requests": [{"messages": HELLO}, {"messages": own}], **common})
    texts = [r.messages[0].content for r in parsed.requests if isinstance(r, ChatRequest)]
    assert texts == ["shared", "mine"]


def test_paths_are_tried_from_here_and_then_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, names in ((here, ["both.png"]), (there, ["both.png", "near.png"])):
        folder.mkdir()
        for name in names:
            (folder / name).touch()
    monkeypatch.chdir(here)

    def source(text: str) -> str:
        part = {"type": "image", "image": text}
        content = only(there, {"messages": [{"role": "user", "content": [part]}]}).messages[0].parts
        assert isinstance(content[0], ImagePart)
        return str(content[0].source)

    assert source("both.png") == "both.png"
    assert source("near.png") == str(there / "near.png")
    assert source("data:image/png;base64,AA") == "data:image/png;base64,AA"
    for text in ("gone.png", "", "x" * 5000, "nul\0"):
        with pytest.raises(
            RequestError, match=r"content\[0\].image: no file .* in the working dir"
        ):
            source(text)
    with pytest.raises(RequestError, match="URLs are not fetched"):
        source("https://example.com/a.png")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (5, "requests[1]: must be an object, found 5"),
        ({}, 'requests[1]: "messages" is missing'),
        ({"messages": {}}, "requests[1].messages: must be a list, found an object"),
        ({"messages": []}, "requests[1]: a request needs 1 to 64 messages, got 0"),
        ({"messages": [{"role": "user"}]}, 'requests[1].messages[0]: "content" is missing'),
        (
            {"messages": [{"role": "user", "content": 3}]},
            "requests[1].messages[0].content: must be a string or a list of parts",
        ),
        (
            {"messages": [{"role": "robot", "content": ""}]},
            "requests[1].messages[0]: a message's role must be one of system, user",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "audio"}]}]},
            "requests[1].messages[0].content[0].type: must be text, image or video, found 'audio'",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "image": 5}]}]},
            "requests[1].messages[0].content[0].image: must be a string, found 5",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "video", "video": "a.mp4"}]}]},
            'requests[1].messages[0].content[0]: video files are not decoded; give "frames"',
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "video", "frames": []}]}]},
            "requests[1].messages[0].content[0]: a video needs at least one frame",
        ),
        (
            {"messages": HELLO, "temperature": "hot"},
            "requests[1].temperature: must be a number, found a string",
        ),
        (
            {"messages": HELLO, "temperature": float("nan")},
            "requests[1].temperature: temperature must be a number >= 0, got nan",
        ),
        ({"messages": HELLO, "top_k": True}, "requests[1].top_k: must be an integer, found true"),
        ({"messages": HELLO, "top_k": 2.5}, "requests[1].top_k: must be an integer, found 2.5"),
        ({"messages": HELLO, "stop": [1]}, "requests[1].stop[0]: must be a string, found 1"),
        (
            {"messages": HELLO, "visual_pruning": "dart"},
            "requests[1].visual_pruning: must be an object, found a string",
        ),
        (
            {"messages": HELLO, "lora_name": "french"},
            "requests[1].lora_name: LoRA adapters are not supported; merge the adapter",
        ),
        ({"messages": HELLO, "logit_bias": {"5": 1}}, "requests[1].logit_bias: logit biases"),
        ({"messages": HELLO, "num_logprobs": 3}, "requests[1].num_logprobs: log probabilities"),
        (
            {"messages": HELLO, "guided_decoding": {"regex": "a"}},
            "requests[1].guided_decoding: guided decoding is not supported; remove it",
        ),
        (
            {"messages": HELLO, "save_system_prompt_kv_cache": True},
            "requests[1].save_system_prompt_kv_cache: a kept system-prompt KV cache",
        ),
    ],
)
def test_a_bad_request_is_one_line_and_does_not_stop_the_others(
    tmp_path: Path, request_: Any, message: str
) -> None:
    parsed = read(tmp_path, {"requests": [HELLO, request_, {"messages": HELLO}]})
    good, bad, also_good = parsed.requests
    assert isinstance(good, ChatRequest)
    assert isinstance(also_good, ChatRequest)
    assert isinstance(bad, RequestError)
    assert str(bad).startswith(f"{tmp_path / 'requests.json'}: {message}")
    assert "\n" not in str(bad)


def test_an_unsupported_global_setting_fails_every_request(tmp_path: Path) -> None:
    parsed = read(tmp_path, {"requests": [HELLO, HELLO], "logit_bias": {"1": 2.0}})
    assert all("logit biases" in str(request) for request in parsed.requests)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"requests": [}', "not valid JSON at line 1, column 15"),
        ("{\n 'a': 1}", "not valid JSON at line 2, column 2"),
        ("[]", "must be an object, found a list"),
        ("{}", '"requests" is missing'),
        ({"requests": {}}, "requests: must be a list, found an object"),
        ({"requests": []}, "requests: is empty"),
        ({"requests": [HELLO], "temperature": -1}, "temperature: temperature must be a number >="),
        ({"requests": [HELLO], "batch_size": 0}, "batch_size: must be >= 1, found 0"),
        ({"requests": [HELLO], "enable_thinking": 1}, "enable_thinking: must be true or false"),
        ("[" * 100000, "JSON that cannot be read"),
        ('{"requests": ' + "9" * 10000 + "}", "JSON that cannot be read"),
    ],
)
def test_an_unusable_file_is_one_line(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, document)
    assert str(caught.value).startswith(f"{tmp_path / 'requests.json'}: {message}")


def test_an_unreadable_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.json: cannot be read \(No such file"):
        read_request_file(tmp_path / "gone.json")
    (tmp_path / "latin.json").write_bytes(b'{"requests": "\xe9"}')
    with pytest.raises(UsageError, match="not UTF-8 text"):
        read_request_file(tmp_path / "latin.json")


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "requests.json"
    path.write_text(json.dumps({"requests": [HELLO]}), encoding="utf-8-sig")
    assert isinstance(read_request_file(path).requests[0], ChatRequest)


def test_unknown_keys_are_never_ignored_in_silence(tmp_path: Path) -> None:
    parsed = read(tmp_path, {"requests": [{"messages": HELLO, "temprature": 0}], "a\nb": ""})
    assert isinstance(parsed.requests[0], ChatRequest)
    first, second = parsed.warnings
    assert "requests.json: unknown key 'a\\nb' is ignored; known: add_generation_prompt, " in first
    assert "requests.json: unknown key 'temprature' in requests[0] is ignored; known: " in second


def test_references_of_a_data_set_are_left_alone(tmp_path: Path) -> None:
    references = {"answer": "B", "subject": "Art", "question_type": ["multiple-choice"]}
    parsed = read(tmp_path, {"requests": [{"messages": HELLO, **references}], "answer": "B"})
    (request,) = parsed.requests
    assert isinstance(request, ChatRequest) and request.messages[0].content == "hello"
    (warning,) = parsed.warnings  # of a whole file an answer means nothing
    assert "unknown key 'answer' is ignored" in warning


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["requests", "messages", "role", "content", "type", "image", "frames"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON, JSON)
def test_no_json_gets_past_the_errors_of_this_project(
    tmp_path_factory: pytest.TempPathFactory, one: Any, other: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    nested = [one, {"messages": [other]}, [{"role": "user", "content": one}]]
    for document in (one, {"requests": nested}):
        try:
            parsed = read(folder, document)
        except UsageError:
            continue
        assert all(isinstance(r, ChatRequest | RequestError) for r in parsed.requests)
