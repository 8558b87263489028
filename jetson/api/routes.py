"""Which path does what."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from ...runtime.json_cursor import JsonCursor
from ..errors import ApiError
from ..logs import log
from ..worker.messages import Count, Counted
from .answering import Answer, Reply, client_of, ignored_header, json_response, submit
from .ask import Ask
from .body import read_json
from .chat_reply import ChatReply
from .chat_request import parse_chat
from .completion_reply import CompletionReply
from .completion_request import parse_completion
from .content import media_urls
from .openapi import openapi_document
from .tokenize_request import parse_tokenize

if TYPE_CHECKING:
    from ..service import Service

_PAGE_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " img-src blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)


class Routes:
    """The handlers, over the parts of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def page(self, request: Request) -> HttpResponse:
        """The playground."""
        text = files("edgevlm.jetson.playground").joinpath("index.html").read_text("utf-8")
        headers = {
            "Content-Security-Policy": _PAGE_POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }
        return HTMLResponse(text, headers=headers)

    async def health(self, request: Request) -> HttpResponse:
        """The HTTP side lives."""
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> HttpResponse:
        """Whether requests can be answered, and if not, why."""
        state = self._service.state
        headers = {} if state.ready else {"Retry-After": "10"}
        status = 200 if state.ready else 503
        return json_response({"ready": state.ready, "reason": state.reason}, headers, status)

    async def metrics(self, request: Request) -> HttpResponse:
        """Prometheus' text."""
        data = self._service.metrics.render()
        return HttpResponse(data, media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> HttpResponse:
        """The description of this interface."""
        return json_response(openapi_document())

    async def models(self, request: Request) -> HttpResponse:
        """The one model."""
        return json_response({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> HttpResponse:
        """The one model, by name."""
        name = request.path_params["name"]
        if name != self._service.config.served_name:
            raise ApiError(404, f"no model {name[:80]!r} here", code="model_not_found")
        return json_response(self._model())

    async def chat(self, scope: Scope, receive: Receive, send: Send) -> None:
        """``/v1/chat/completions``."""
        request = Request(scope, receive)
        root, size = await self._body(request)
        images = await self._service.collector.collect(media_urls(root))
        self._service.memory.check(size, images.pixels)
        ask = parse_chat(root, images.images, self._service.defaults)
        await self._answer(request, ask, ChatReply(ask, self._name), receive, send)

    async def completion(self, scope: Scope, receive: Receive, send: Send) -> None:
        """``/v1/completions``."""
        request = Request(scope, receive)
        root, size = await self._body(request)
        self._service.memory.check(size, 0)
        ask = parse_completion(root, self._service.defaults)
        await self._answer(request, ask, CompletionReply(ask, self._name), receive, send)

    async def tokenize(self, request: Request) -> HttpResponse:
        """``/tokenize``: the ids of a text, or of a conversation with its images."""
        root, size = await self._body(request)
        urls = media_urls(root) if "messages" in root else {}
        images = await self._service.collector.collect(urls)
        self._service.memory.check(size, images.pixels)
        asked, ignored = parse_tokenize(root, images.images, self._service.defaults)
        dispatcher = self._service.dispatcher
        job = dispatcher.submit(client_of(request), Count(dispatcher.next_number(), asked))
        try:
            async for event in job.events():
                if isinstance(event, Counted):
                    ids = list(event.token_ids)
                    info = self._service.supervisor.info
                    length = info.max_input_len if info else None
                    body = {"count": len(ids), "max_model_len": length, "tokens": ids}
                    return json_response(body, ignored_header(ignored))
        finally:
            dispatcher.cancel(job)
        raise AssertionError("a count ends with Counted or an error")

    @property
    def _name(self) -> str:
        return self._service.config.served_name

    async def _body(self, request: Request) -> tuple[JsonCursor, int]:
        config = self._service.config
        limit = int(config.max_body_mb * 1e6)
        declared = request.headers.get("content-length", "")
        self._service.memory.check(min(int(declared), limit) if declared.isdecimal() else 0, 0)
        return await read_json(request, limit, config.body_timeout_s)

    async def _answer(
        self, request: Request, ask: Ask, reply: Reply, receive: Receive, send: Send
    ) -> None:
        service = self._service
        job = submit(request, service.dispatcher, ask)
        timeout = service.config.write_timeout_s
        answer = Answer(ask, reply, job, service.dispatcher, service.metrics, timeout)
        try:
            await answer(request.scope, receive, send)
        finally:
            self._note(request, answer, job.energy_j)

    def _note(self, request: Request, answer: Answer, energy_j: float | None) -> None:
        """What the log line says about an answer."""
        visit = request.scope["edgevlm"]
        done = answer.done
        if done is not None:
            visit.details |= {
                "finish_reason": done.finish_reason,
                "prompt_tokens": done.prompt_tokens,
                "completion_tokens": done.completion_tokens,
                "pruned_tokens": (done.report or {}).get("pruned_tokens"),
                "energy_j": None if energy_j is None else round(energy_j, 3),
            }
        if self._service.config.log_content:
            messages = [message.to_json() for message in answer.request.messages]
            log("content", request_id=visit.id, messages=messages, answer="".join(answer.text))

    def _model(self) -> dict[str, Any]:
        info = self._service.supervisor.info
        details = None
        if info is not None:
            details = {
                "target": info.target,
                "dtype": info.dtype,
                "slots": info.slots,
                "max_image_tokens": info.max_image_tokens,
                "pruners": list(info.pruners),
            }
        return {
            "id": self._name,
            "object": "model",
            "created": self._service.started,
            "owned_by": "edgevlm",
            "max_model_len": info.max_kv_len if info else None,
            "edgevlm": details,
        }


class _Stream:
    """A handler that is an ASGI application of its own, which routes would else wrap."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._handler(scope, receive, send)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise ApiError(404, "no such path; see /openapi.json")


def make_router(service: Service) -> Router:
    """All routes."""
    routes = Routes(service)
    return Router(
        [
            Route("/", routes.page),
            Route("/health", routes.health),
            Route("/health/ready", routes.ready),
            Route("/metrics", routes.metrics),
            Route("/openapi.json", routes.openapi),
            Route("/v1/models", routes.models),
            Route("/v1/models/{name:path}", routes.model),
            Route("/v1/chat/completions", _Stream(routes.chat), methods=["POST"]),
            Route("/v1/completions", _Stream(routes.completion), methods=["POST"]),
            Route("/tokenize", routes.tokenize, methods=["POST"]),
        ],
        redirect_slashes=False,
        default=_not_found,
    )
