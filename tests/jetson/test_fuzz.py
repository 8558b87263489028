"""Requests nobody would write, made from the service's own description of itself."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance

from edgevlm.jetson.api.openapi import openapi_document

from .live import LiveService

schema = schemathesis.openapi.from_dict(openapi_document())
FEW = hypothesis.settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)


@schema.parametrize()
@FEW
def test_requests_after_the_description(case: schemathesis.Case, scripted: LiveService) -> None:
    if isinstance(case.body, dict):
        case.body.pop("model", None)
    # Some rules join fields (stream_options needs stream), which a schema says at length or not
    # at all; so what it allows may be refused, but what it forbids must be.
    case.call_and_validate(
        base_url=scripted.url, timeout=30, excluded_checks=[positive_data_acceptance]
    )


NOISE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["role", "content", "type", "text", "image_url", "url", "frames", "fps", "function",
             "name", "parameters", "arguments", "json_schema", "schema", "include_usage"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
FIELDS = ("messages", "prompt", "stream", "stop", "tools", "tool_choice", "response_format",
          "visual_pruning", "logprobs", "top_logprobs", "temperature", "top_p", "top_k", "seed",
          "max_tokens", "stream_options", "logit_bias", "n", "parallel_tool_calls")  # fmt: skip


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/tokenize"])
def test_noise_is_answered_or_refused_by_name(path: str, scripted: LiveService) -> None:
    import httpx

    client = httpx.Client(base_url=scripted.url, timeout=30)

    @FEW
    @hypothesis.given(body=st.dictionaries(st.sampled_from(FIELDS), NOISE, max_size=5))
    def check(body: dict[str, Any]) -> None:
        try:
            response = client.post(path, json=body)
        except ValueError:  # json.dumps refuses, not the service
            hypothesis.reject()
        assert response.status_code in (200, 400), response.text
        if response.status_code == 400:
            assert response.json()["error"]["message"]

    check()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/tokenize"])
def test_broken_multipart_and_raw_bytes_are_refused(path: str, scripted: LiveService) -> None:
    import httpx

    client = httpx.Client(base_url=scripted.url, timeout=30)
    kinds = ["multipart/form-data; boundary=x", "multipart/form-data", "text/plain", "", "a/b;;;",
             "application/json; charset=utf-16", "application/json"]  # fmt: skip

    @FEW
    @hypothesis.given(data=st.binary(max_size=200), kind=st.sampled_from(kinds))
    def check(data: bytes, kind: str) -> None:
        response = client.post(path, content=data, headers={"Content-Type": kind})
        assert response.status_code == (400 if kind.startswith("application/json") else 415)

    check()
