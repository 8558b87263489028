"""The checkpoint's chat template: a conversation becomes the text the model was trained on.

Templates come with checkpoints, so they run in Jinja's sandbox and see plain data only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..core import CheckpointError, RequestError
from .json_file import read_json
from .request import ImagePart, Message, Part, TextPart


class ChatTemplate:
    """A compiled template.

    Args:
        source: Jinja source, with what Hugging Face offers to templates.
        name: where it comes from, for messages.
        special_tokens: variables every rendering sees, such as ``eos_token``.

    Raises:
        CheckpointError: the source is not a Jinja template.
    """

    def __init__(
        self, source: str, name: str, special_tokens: Mapping[str, str] | None = None
    ) -> None:
        self._special_tokens = dict(special_tokens or {})
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise CheckpointError(f"{name}: line {error.lineno}: {error.message}") from None

    @classmethod
    def from_directory(
        cls, directory: Path, special_tokens: Mapping[str, str] | None = None
    ) -> ChatTemplate:
        """Read ``chat_template.jinja``, ``chat_template.json`` or ``tokenizer_config.json``.

        Raises:
            CheckpointError: none of them holds a template, or it does not compile.
        """
        path = directory / "chat_template.jinja"
        if path.is_file():
            return cls(path.read_text(encoding="utf-8"), str(path), special_tokens)
        for name in ("chat_template.json", "tokenizer_config.json"):
            found = (read_json(directory / name) or {}).get("chat_template")
            if isinstance(found, list):  # several, by name
                found = {entry["name"]: entry["template"] for entry in found}.get("default")
            if isinstance(found, str):
                return cls(found, str(directory / name), special_tokens)
        raise CheckpointError(f"{path}: no such file; copy it from the checkpoint")

    def render(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """The prompt's text, with one placeholder where each image or video belongs.

        Raises:
            RequestError: the template refuses this conversation, or fails on it.
        """
        data = [_message(message) for message in messages]
        try:
            return self._template.render(
                messages=data,
                add_generation_prompt=add_generation_prompt,
                **self._special_tokens,
                **variables,
            )
        except jinja2.TemplateError as error:
            raise RequestError(f"the chat template refuses this conversation: {error}") from None
        except Exception as error:  # the template is the checkpoint's program, not ours
            raise RequestError(f"the chat template fails on this conversation: {error}") from None


def _message(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": _content(message.content)}
    if message.tool_calls:
        plain["tool_calls"] = [
            {"type": "function", "function": dict(call)} for call in message.tool_calls
        ]
    return plain


def _content(content: str | Sequence[Part]) -> str | list[dict[str, str]]:
    """Content as templates know it. They look at the kind of a part, or for its key."""
    if isinstance(content, str):
        return content
    return [_part(part) for part in content]


def _part(part: Part) -> dict[str, str]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    kind = "image" if isinstance(part, ImagePart) else "video"
    return {"type": kind, kind: kind}


class _GenerationBlock(Extension):
    """``{% generation %}``, which marks text for training, renders its body."""

    tags = {"generation"}  # noqa: RUF012  # Jinja's interface

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationBlock]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda format: datetime.now().strftime(format)
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON; Jinja's own filter would escape it for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)
