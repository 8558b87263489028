"""The output file of ``llm_inference``: the seed's layout with our additions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .response import Response


def response_document(
    input_file: str, responses: Sequence[Response], batch_size: int
) -> dict[str, Any]:
    """The JSON document for a run.

    ``request_idx`` counts requests in the input file, ``batch_idx`` their place in a batch of
    ``batch_size`` as a static batcher would have formed it. ``usage``, ``timing``, ``notes`` and
    ``error`` are this project's additions.
    """
    return {
        "input_file": input_file,
        "responses": [_entry(place, r, batch_size) for place, r in enumerate(responses)],
    }


def _entry(place: int, response: Response, batch_size: int) -> dict[str, Any]:
    messages = response.request.messages if response.request is not None else ()
    entry: dict[str, Any] = {
        "output_text": response.text,
        "request_idx": place,
        "batch_idx": place % batch_size,
        "finish_reason": str(response.finish_reason),
        "messages": [message.to_json() for message in messages],
        "formatted_complete_request": response.prompt_text,
        "generated_token_count": len(response.token_ids),
        "usage": {
            "prompt_tokens": response.prompt_tokens,
            "completion_tokens": len(response.token_ids),
            "visual_pruning": _pruning(response),
        },
        "timing": response.timing.to_json(),
    }
    if response.notes:
        entry["notes"] = list(response.notes)
    if response.error is not None:
        entry["error"] = response.error
    return entry


def _pruning(response: Response) -> dict[str, Any] | None:
    """The counts; which rows were kept is for the Python API, a file would be mostly that."""
    if response.report is None:
        return None
    return {k: v for k, v in response.report.to_json().items() if k != "kept_positions"}
