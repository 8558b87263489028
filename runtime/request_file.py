"""Request files: NVIDIA TensorRT Edge-LLM's JSON, accepted unchanged, with a few additions.

A file has settings for all requests and a list ``requests``. Ours in addition, per request: ``id``,
``visual_pruning`` and its own ``temperature``, ``top_p``, ``top_k`` and ``max_generate_length``;
images may be ``data:`` URIs.

A data set's requests may carry what their answers are compared with; it does not reach the model.
Keys that only steer another engine's speed are accepted and change nothing. Keys that would change
the answer and are not supported here fail the requests they apply to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core import RequestError, UsageError
from .json_cursor import JsonCursor
from .request import ChatRequest, ImagePart, Message, Part, SamplingParams, TextPart, VideoPart
from .source import is_data_uri, shorten

DEFAULT_FPS = 2.0
"""Rate assumed for frames that come without one: what Qwen3-VL samples videos at."""

# The defaults of the format, which are not those of the Python API.
_DEFAULTS = SamplingParams(temperature=1.0, top_p=0.8, top_k=50, max_tokens=256)

_SAMPLING: dict[str, tuple[str, Callable[[JsonCursor], float]]] = {
    "temperature": ("temperature", JsonCursor.number),
    "top_p": ("top_p", JsonCursor.number),
    "top_k": ("top_k", JsonCursor.integer),
    "max_generate_length": ("max_tokens", JsonCursor.integer),
    "sampling_seed": ("seed", JsonCursor.integer),
}
_TEMPLATE = ("add_generation_prompt", "apply_chat_template", "enable_thinking")
_HARMLESS = {
    "batch_size",
    "spec_proposal_sampling",
    "disable_spec_decode",
    "context_cache_lookup_policy",
    "context_cache_commit_policy",
    "available_lora_weights",
}
_UNSUPPORTED = {
    "lora_name": "LoRA adapters are not supported; merge the adapter into the checkpoint",
    "guided_decoding": "guided decoding is not supported",
    "logit_bias": "logit biases are not supported",
    "num_logprobs": "log probabilities are not supported",
    "save_system_prompt_kv_cache": "a kept system-prompt KV cache is not supported",
}
_REFERENCE = {"answer", "subject", "question_type"}
_SHARED_KEYS = {*_SAMPLING, *_HARMLESS, *_UNSUPPORTED}
_FILE_KEYS = {*_SHARED_KEYS, *_TEMPLATE, "requests", "default_system_prompt"}
_REQUEST_KEYS = {*_SHARED_KEYS, *_REFERENCE, "messages", "stop", "id", "visual_pruning"}


@dataclass(frozen=True)
class RequestFile:
    """A parsed request file: what each request asks, or why it cannot be asked.

    ``warnings`` name keys that mean nothing here, one line each.
    """

    requests: tuple[ChatRequest | RequestError, ...]
    batch_size: int
    warnings: tuple[str, ...]


def read_request_file(path: Path) -> RequestFile:
    """Parse ``path``. A bad request becomes its error and does not stop the others.

    Raises:
        UsageError: the file as a whole is of no use: unreadable, not JSON, without requests, or
            with a bad setting that concerns all of them.
    """
    root = JsonCursor(_read_json(path))
    try:
        nodes = list(root["requests"].items())
        if not nodes:
            raise root["requests"].error("is empty; give at least one request")
        parser = _RequestParser(root, _common_settings(root), path.parent)
        batch_size = root["batch_size"].integer() if "batch_size" in root else 1
        if batch_size < 1:
            raise root["batch_size"].error(f"must be >= 1, found {batch_size}")
    except RequestError as error:
        raise UsageError(f"{path}: {error}") from None
    warnings = [*_unknown_keys(root, _FILE_KEYS)]
    requests: list[ChatRequest | RequestError] = []
    for index, node in enumerate(nodes):
        warnings += _unknown_keys(node, _REQUEST_KEYS)
        try:
            requests.append(parser.parse(node, index))
        except RequestError as error:
            requests.append(RequestError(f"{path}: {error}"))
    return RequestFile(tuple(requests), batch_size, tuple(f"{path}: {line}" for line in warnings))


def _read_json(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"{path}: not valid JSON at {place}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: JSON that cannot be read ({error})") from None


@dataclass(frozen=True)
class _Common:
    """Settings that hold for every request that does not say otherwise."""

    sampling: SamplingParams
    template: dict[str, Any]  # of ChatRequest: booleans by field name
    system_prompt: str


def _common_settings(root: JsonCursor) -> _Common:
    template = {key: root[key].boolean() for key in _TEMPLATE if key in root}
    prompt = root["default_system_prompt"].string() if "default_system_prompt" in root else ""
    return _Common(_sampling(root, _DEFAULTS), template, prompt)


def _sampling(node: JsonCursor, base: SamplingParams) -> SamplingParams:
    for key, (name, read) in _SAMPLING.items():
        if key in node:
            changes: dict[str, Any] = {name: read(node[key])}
            with node[key].placed():
                base = replace(base, **changes)
    return base


def _unknown_keys(node: JsonCursor, known: set[str]) -> Iterator[str]:
    keys = node.value if isinstance(node.value, dict) else {}
    for key in keys:
        if key not in known:
            place = f" in {node.where}" if node.where else ""
            yield f"unknown key {key!r}{place} is ignored; known: {', '.join(sorted(known))}"


@dataclass(frozen=True)
class _RequestParser:
    root: JsonCursor
    common: _Common
    folder: Path

    def parse(self, node: JsonCursor, index: int) -> ChatRequest:
        if isinstance(node.value, list):  # a request that is only its conversation
            messages, node = node, JsonCursor({}, node.where)
        else:
            messages = node["messages"]
        for level in (self.root, node):
            for key, reason in _UNSUPPORTED.items():
                if level.value.get(key):
                    raise level[key].error(f"{reason}; remove it")
        sampling = _sampling(node, self.common.sampling)
        pruning = node["visual_pruning"].object() if "visual_pruning" in node else None
        with node.placed():
            return ChatRequest(
                messages=self._messages(messages),
                sampling=sampling,
                stop=_stop(node["stop"]) if "stop" in node else (),
                visual_pruning=pruning,
                id=_identifier(node["id"]) if "id" in node else str(index),
                **self.common.template,
            )

    def _messages(self, node: JsonCursor) -> list[Message]:
        messages = [self._message(entry) for entry in node.items()]
        has_system = any(message.role == "system" for message in messages)
        if self.common.system_prompt and not has_system:
            messages.insert(0, Message("system", self.common.system_prompt))
        return messages

    def _message(self, node: JsonCursor) -> Message:
        role, content = node["role"].string(), node["content"]
        with node.placed():
            if isinstance(content.value, list):
                return Message(role, [self._part(entry) for entry in content.items()])
            if isinstance(content.value, str):
                return Message(role, content.value)
        raise content.error("must be a string or a list of parts")

    def _part(self, node: JsonCursor) -> Part:
        kind = node["type"].string()
        with node.placed():
            if kind == "text":
                return TextPart(node["text"].string())
            if kind == "image":
                resize = node["do_resize"].boolean() if "do_resize" in node else True
                return ImagePart(_source(node["image"], self.folder), resize)
            if kind == "video":
                return self._video(node)
        raise node["type"].error(f"must be text, image or video, found {kind!r}")

    def _video(self, node: JsonCursor) -> VideoPart:
        if "frames" not in node:
            raise node.error('video files are not decoded; give "frames", a list, and "fps"')
        frames = [_source(frame, self.folder) for frame in node["frames"].items()]
        return VideoPart(frames, node["fps"].number() if "fps" in node else DEFAULT_FPS)


def _source(node: JsonCursor, folder: Path) -> str:
    """A ``data:`` URI as it is, or a path found from here or else from the file's own folder."""
    text = node.string()
    if is_data_uri(text):
        return text
    if "://" in text[:16]:
        raise node.error("URLs are not fetched; give a path or a data: URI")
    for candidate in (Path(text), folder / text):
        if text and _exists(candidate):
            return str(candidate)
    raise node.error(f"no file {shorten(text)!r} in the working directory or in {folder}")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, or holding a null: not the name of a file
        return False


def _stop(node: JsonCursor) -> list[str]:
    if isinstance(node.value, str):
        return [node.value] if node.value else []
    return [entry.string() for entry in node.items()]


def _identifier(node: JsonCursor) -> str:
    return str(node.value) if isinstance(node.value, int) else node.string()
