"""The OpenAPI description of the interface, short and true: what is accepted, what comes back."""

from __future__ import annotations

from typing import Any

from ...core.manifest import edgevlm_version
from ...runtime.request import MAX_LOGPROBS, MAX_MESSAGES
from .fields import MAX_STOPS
from .tools import MAX_TOOLS


def _optional(properties: dict[str, Any]) -> dict[str, Any]:
    """A null counts as absent."""
    return {name: {"anyOf": [schema, {"type": "null"}]} for name, schema in properties.items()}


_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_URL = {
    "oneOf": [
        _TEXT,
        {"type": "object", "properties": {"url": _TEXT}, "required": ["url"]},
    ]
}
_PART = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"type": {"const": "text"}, "text": _TEXT},
            "required": ["type", "text"],
        },
        {
            "type": "object",
            "properties": {"type": {"const": "image_url"}, "image_url": _URL},
            "required": ["type", "image_url"],
        },
        {
            "type": "object",
            "properties": {
                "type": {"const": "video"},
                "frames": {"type": "array", "items": _URL, "minItems": 1},
                **_optional({"fps": {"type": "number", "exclusiveMinimum": 0}}),
            },
            "required": ["type", "frames"],
        },
    ]
}
_MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
        **_optional(
            {
                "content": {"oneOf": [_TEXT, {"type": "array", "items": _PART, "minItems": 1}]},
                "tool_calls": {"type": "array", "items": {"type": "object"}},
            }
        ),
    },
    "required": ["role"],
}
_MESSAGES = {"type": "array", "items": _MESSAGE, "minItems": 1, "maxItems": MAX_MESSAGES}
_FUNCTION = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"},
        **_optional({"parameters": {"type": "object"}}),
    },
    "required": ["name"],
}
_RESPONSE_FORMAT = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"type": {"enum": ["text", "json_object"]}},
            "required": ["type"],
        },
        {
            "type": "object",
            "properties": {
                "type": {"const": "json_schema"},
                "json_schema": {
                    "type": "object",
                    "properties": {"name": _TEXT, "schema": {"type": "object"}},
                    "required": ["schema"],
                },
            },
            "required": ["type", "json_schema"],
        },
    ]
}
_TOOL_CHOICE = {
    "oneOf": [
        {"enum": ["none", "auto", "required"]},
        {
            "type": "object",
            "properties": {
                "type": {"const": "function"},
                "function": {
                    "type": "object",
                    "properties": {"name": _TEXT},
                    "required": ["name"],
                },
            },
            "required": ["function"],
        },
    ]
}
_PROMPT = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 1}]}
_TOOL = {
    "type": "object",
    "properties": {"type": {"const": "function"}, "function": _FUNCTION},
    "required": ["function"],
}
_COMMON: dict[str, Any] = {
    "model": {"type": "string"},
    "max_completion_tokens": {"type": "integer", "minimum": 1},
    "max_tokens": {"type": "integer", "minimum": 1},
    "temperature": {"type": "number", "minimum": 0},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1},
    "top_k": {"type": "integer", "minimum": 0},
    "seed": {"type": "integer"},
    "stop": {
        "oneOf": [
            {"type": "string", "minLength": 1},
            {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": MAX_STOPS},
        ]
    },
    "stream": _FLAG,
    "stream_options": {"type": "object", "properties": _optional({"include_usage": _FLAG})},
    "visual_pruning": {
        "type": ["object", "null"],
        "description": "enabled, algorithm, reduction_ratio, auto_min, auto_max, min_visual_tokens,"
        " and the algorithm's own options",
        "properties": {
            "enabled": {"type": "boolean"},
            "algorithm": _TEXT,
            "reduction_ratio": {
                "oneOf": [
                    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                    {"const": "auto"},
                ]
            },
            "auto_min": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
            "auto_max": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "min_visual_tokens": {"type": "integer", "minimum": 0},
        },
    },
    "return_visual_tokens": _FLAG,
}


_CHAT = {
    "type": "object",
    "properties": {
        **_optional(
            {
                **_COMMON,
                "logprobs": _FLAG,
                "top_logprobs": {"type": "integer", "minimum": 0, "maximum": MAX_LOGPROBS},
                "response_format": _RESPONSE_FORMAT,
                "tools": {"type": "array", "items": _TOOL, "maxItems": MAX_TOOLS},
                "tool_choice": _TOOL_CHOICE,
                "parallel_tool_calls": _FLAG,
            }
        ),
        "messages": _MESSAGES,
    },
    "required": ["messages"],
}
_COMPLETION = {
    "type": "object",
    "properties": {
        **_optional(
            {
                **_COMMON,
                "logprobs": {"type": "integer", "minimum": 0, "maximum": MAX_LOGPROBS},
            }
        ),
        "prompt": _PROMPT,
    },
    "required": ["prompt"],
}
_TOKENIZE = {
    "type": "object",
    "properties": _optional({"prompt": _PROMPT, "messages": _MESSAGES, "model": _TEXT}),
}
_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": _TEXT,
                "type": _TEXT,
                "param": {"anyOf": [_TEXT, {"type": "null"}]},
                "code": {"anyOf": [_TEXT, {"type": "null"}]},
            },
            "required": ["message", "type", "param", "code"],
        }
    },
    "required": ["error"],
}


def openapi_document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    get = {"/health": "lives", "/health/ready": "can answer", "/v1/models": "the model"}
    paths: dict[str, Any] = {path: {"get": _get(summary)} for path, summary in get.items()}
    for path, summary, schema in (
        ("/v1/chat/completions", "answer a conversation", _CHAT),
        ("/v1/completions", "continue a text", _COMPLETION),
        ("/tokenize", "token ids of a text or a conversation", _TOKENIZE),
    ):
        paths[path] = {"post": _post(summary, schema)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "edgevlm", "version": edgevlm_version()},
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


def _get(summary: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": _json({"type": "object"}), "default": _ANY}}


def _post(summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    answer = _json({"type": "object"})
    if "stream" in schema["properties"]:
        answer["content"]["text/event-stream"] = {}
    return {
        "summary": summary,
        "requestBody": body,
        "responses": {"200": answer, "default": _ANY},
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "answer", "content": {"application/json": {"schema": schema}}}


_ANY = {"description": "refused", "content": {"application/json": {"schema": _ERROR}}}
