"""Functions the model may call: what a request offers, and whether the model must choose one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...runtime.json_cursor import JsonCursor
from ..worker.messages import Grammar

MAX_TOOLS = 64
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class Tools:
    """The tools of a request.

    Args:
        shown: their descriptions, for the chat template.
        grammar: what the answer must follow if a call is required.
        parse: whether calls are looked for in the answer.
    """

    shown: tuple[dict[str, Any], ...] = ()
    grammar: Grammar | None = None
    parse: bool = False


def read_tools(root: JsonCursor) -> Tools:
    """``tools``, ``tool_choice`` and ``parallel_tool_calls``.

    Raises:
        RequestError: naming the place.
    """
    if "tools" not in root:
        if "tool_choice" in root and root["tool_choice"].value not in ("none", "auto"):
            raise root["tool_choice"].error("needs tools")
        return Tools()
    nodes = list(root["tools"].items())
    if len(nodes) > MAX_TOOLS:
        raise root["tools"].error(f"at most {MAX_TOOLS} tools are accepted, got {len(nodes)}")
    schemas = dict(_tool(node) for node in nodes)
    shown = tuple(node.object() for node in nodes)
    wanted = _wanted(root["tool_choice"], schemas) if "tool_choice" in root else "auto"
    if wanted == "none" or not schemas:
        return Tools()
    if wanted == "auto":
        return Tools(shown, None, True)
    chosen = schemas if wanted == "required" else {wanted[1:]: schemas[wanted[1:]]}
    several = wanted == "required" and (
        root["parallel_tool_calls"].boolean() if "parallel_tool_calls" in root else True
    )
    calls = tuple(map(_call_schema, chosen, chosen.values()))
    return Tools(shown, Grammar("tool_calls", calls, "tools", several), True)


def _tool(node: JsonCursor) -> tuple[str, Any]:
    """A function's name and the schema of its arguments."""
    kind = node["type"].string() if "type" in node else "function"
    if kind != "function":
        raise node["type"].error(f"must be function, found {kind[:40]!r}")
    function = node["function"]
    name = function["name"].string()
    if not _NAME.fullmatch(name):
        raise function["name"].error("must be 1 to 64 letters, digits, '_', '.' or '-'")
    parameters = function["parameters"].object() if "parameters" in function else {}
    return name, parameters or {"type": "object", "properties": {}}


def _wanted(node: JsonCursor, schemas: dict[str, Any]) -> str:
    """``none``, ``auto``, ``required``, or ``=`` and the name of the function to call."""
    if isinstance(node.value, str):
        if node.value not in ("none", "auto", "required"):
            raise node.error("must be none, auto, required or a function")
        return node.value
    name = node["function"]["name"].string()
    if name not in schemas:
        known = ", ".join(schemas) or "none"
        raise node["function"]["name"].error(f"is none of the tools; they are: {known}")
    return f"={name}"


def _call_schema(name: str, parameters: Any) -> dict[str, Any]:
    """The JSON of one call, as Qwen's chat templates teach it."""
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
