"""Errors as clients see them: an HTTP status and OpenAI's error object."""

from __future__ import annotations

from typing import Any

from ..core import EdgeVLMError


class ApiError(EdgeVLMError):
    """One request failed.

    Args:
        status: HTTP status.
        param: the field that is to blame, such as ``messages[0].content``.
        code: a word programs can compare.
        retry_after: seconds after which trying again makes sense.
        allow: the methods that are possible, for status 405.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
        allow: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after = retry_after
        self.allow = allow

    def body(self) -> dict[str, Any]:
        """The response body."""
        return {
            "error": {
                "message": self.message,
                "type": _KINDS.get(self.status, "server_error"),
                "param": self.param,
                "code": self.code,
            }
        }

    @property
    def headers(self) -> dict[str, str]:
        """Headers that go with it."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.allow is not None:
            headers["Allow"] = self.allow
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return headers


_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
}


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """The request itself is wrong."""
    return ApiError(400, message, param=param, code=code)
