"""The fields that chat and text completions have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...core import RequestError
from ...runtime import SamplingParams
from ...runtime.json_cursor import JsonCursor, PlacedError
from ..errors import ApiError, bad_request

MAX_STOPS = 16

# Fields that would change the answer and are not supported, with the value that changes nothing.
_NEUTRAL: dict[str, Any] = {
    "n": 1,
    "best_of": 1,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "min_p": 0,
    "logit_bias": {},
    "echo": False,
    "suffix": "",
    "functions": [],
    "function_call": "none",
    "modalities": ["text"],
}
_SAMPLING: dict[str, Callable[[JsonCursor], float]] = {
    "temperature": JsonCursor.number,
    "top_p": JsonCursor.number,
    "top_k": JsonCursor.integer,
}
COMMON_FIELDS = {
    *_NEUTRAL,
    *_SAMPLING,
    "model",
    "max_completion_tokens",
    "max_tokens",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "visual_pruning",
    "return_visual_tokens",
}


@dataclass(frozen=True)
class Defaults:
    """What holds where a request says nothing."""

    model: str
    sampling: SamplingParams


def check_model(root: JsonCursor, defaults: Defaults) -> None:
    """Make sure that the request is for the model served here.

    Raises:
        ApiError: 404.
    """
    if "model" in root and root["model"].string() != defaults.model:
        message = f"this service has the model {defaults.model!r} only"
        raise ApiError(404, message, param="model", code="model_not_found")


def check_unsupported(root: JsonCursor) -> None:
    """Refuse what would change the answer and cannot be done.

    Raises:
        RequestError: naming the field.
    """
    for name, neutral in _NEUTRAL.items():
        if name in root and root[name].value != neutral:
            raise root[name].error(f"is not supported; remove it or set it to {neutral!r}")


def read_sampling(root: JsonCursor, defaults: Defaults) -> SamplingParams:
    """Sampling, without log probabilities, which the two interfaces ask for differently.

    Raises:
        RequestError: naming the field.
    """
    params = defaults.sampling
    changes: dict[str, tuple[JsonCursor, Any]] = {
        name: (root[name], read(root[name])) for name, read in _SAMPLING.items() if name in root
    }
    for name in ("max_tokens", "max_completion_tokens"):  # the second is the newer name
        if name in root:
            changes["max_tokens"] = (root[name], root[name].integer())
    if "seed" in root:
        seed = root["seed"].integer()
        if not -(2**63) <= seed < 2**63:
            raise root["seed"].error("must be a 64-bit integer")
        changes["seed"] = (root["seed"], seed % 2**63)
    for name, (node, value) in changes.items():
        with node.placed():
            params = replace(params, **{name: value})
    return params


def read_stop(root: JsonCursor) -> tuple[str, ...]:
    """Stop strings.

    Raises:
        RequestError: naming the field.
    """
    if "stop" not in root:
        return ()
    node = root["stop"]
    nodes = [node] if isinstance(node.value, str) else list(node.items())
    stops = tuple(entry.string() for entry in nodes)
    if len(stops) > MAX_STOPS:
        raise node.error(f"at most {MAX_STOPS} strings are accepted, got {len(stops)}")
    for entry in nodes:
        if not entry.string():
            raise entry.error("must not be empty")
    return stops


def read_streaming(root: JsonCursor) -> tuple[bool, bool]:
    """Whether to stream, and whether to end the stream with usage.

    Raises:
        RequestError: naming the field.
    """
    stream = read_flag(root, "stream")
    if "stream_options" not in root:
        return stream, False
    options = root["stream_options"]
    options.object()
    if not stream:
        raise options.error("is for streams only; set stream to true")
    return stream, read_flag(options, "include_usage")


def read_flag(root: JsonCursor, name: str, default: bool = False) -> bool:
    """A boolean that may be absent."""
    return root[name].boolean() if name in root else default


def read_pruning(root: JsonCursor) -> Mapping[str, Any] | None:
    """Pruner settings as they are; the worker, which knows the pruners, checks them."""
    return root["visual_pruning"].object() if "visual_pruning" in root else None


def unknown_fields(node: JsonCursor, known: Iterable[str]) -> tuple[str, ...]:
    """Names of what is given and not known, with their place."""
    names = node.value if isinstance(node.value, dict) else {}
    prefix = f"{node.where}." if node.where else ""
    return tuple(f"{prefix}{name}" for name in names if name not in set(known))


def as_api_error(error: RequestError) -> ApiError:
    """A wrong request as clients see it."""
    where = error.where if isinstance(error, PlacedError) else ""
    return bad_request(str(error), where or None)
