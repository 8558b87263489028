"""The worker's loop: take messages, step the runtime, report events.

Three threads share the work, and only the loop's own touches the engine: one reads messages, one
prepares requests (decoding images, tokenizing, compiling grammars) so that decode steps of others
need not wait for that.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

import torch

from ...core import RequestError
from ...runtime import ChatRequest, FinishReason, Response, TextDelta
from ...runtime.prompt import PreparedPrompt
from .grammar import GrammarCompiler
from .messages import (
    Cancel,
    Count,
    Counted,
    Done,
    FromWorker,
    Memory,
    Opened,
    Piece,
    Refused,
    Stop,
    Submit,
    ToWorker,
)
from .opening import OpenedEngine
from .token_text import TokenText

_MEMORY_EVERY = 64  # steps


@dataclass(frozen=True)
class _Prepared:
    """A request that may be submitted now."""

    job: int
    request: ChatRequest
    prompt: PreparedPrompt


class WorkerLoop:
    """Serves one connection with one engine until told to stop."""

    def __init__(self, connection: Connection[Any, Any], opened: OpenedEngine) -> None:
        self._connection = connection
        self._runtime = opened.runtime
        self._info = opened.info
        tokenizer = opened.runtime.processor.tokenizer
        self._grammars = GrammarCompiler(tokenizer, opened.runtime.vocabulary)
        self._texts = TokenText(tokenizer)
        self._inbox: queue.SimpleQueue[ToWorker | _Prepared | Refused | Counted] = (
            queue.SimpleQueue()
        )
        self._preparing: set[int] = set()
        self._jobs: dict[int, int] = {}  # runtime index -> job
        self._pool = ThreadPoolExecutor(1, "prepare")

    def run(self) -> None:
        """Serve; returns when the other side says so or is gone."""
        Thread(target=self._read, name="read", daemon=True).start()
        self._send(Opened(self._info))
        steps = 0
        while True:
            for message in self._arrivals():
                if isinstance(message, Stop):
                    self._pool.shutdown(wait=False, cancel_futures=True)
                    return
                self._handle(message)
            if self._runtime.idle:
                continue
            for event in self._runtime.step():
                self._report(event)
            if steps % _MEMORY_EVERY == 0:
                self._send(Memory(_device_bytes()))
            steps += 1

    def _arrivals(self) -> Iterator[Any]:
        """What has come in; waits for something if there is nothing else to do."""
        try:
            yield self._inbox.get(block=self._runtime.idle)
            while True:
                yield self._inbox.get_nowait()
        except queue.Empty:
            return

    def _handle(self, message: Any) -> None:
        if isinstance(message, Submit | Count):
            self._preparing.add(message.job)
            self._pool.submit(self._prepare, message)
        elif isinstance(message, Cancel):
            self._cancel(message.job)
        elif message.job in self._preparing:  # not cancelled meanwhile
            self._preparing.discard(message.job)
            if isinstance(message, _Prepared):
                index = self._runtime.submit(message.request, message.prompt)
                self._jobs[index] = message.job
            else:
                self._send(message)

    def _prepare(self, message: Submit | Count) -> None:
        """Runs in the preparing thread; whatever happens ends in the inbox."""
        try:
            if message.job not in self._preparing:
                return
            request = message.request
            if isinstance(message, Count):
                prompt = self._runtime.prepare(request)
                self._inbox.put(Counted(message.job, tuple(prompt.token_ids.tolist())))
                return
            if message.grammar is not None:
                request = replace(request, constraint=self._grammars.compile(message.grammar))
            self._inbox.put(_Prepared(message.job, request, self._runtime.prepare(request)))
        except RequestError as error:
            text = str(error)
            param = "visual_pruning" if text.startswith("visual_pruning:") else None
            grammar = message.grammar if isinstance(message, Submit) else None
            if grammar is not None and text.startswith(f"{grammar.param}:"):
                param = grammar.param
            self._inbox.put(Refused(message.job, text, param))
        except Exception as error:  # a bug; it must not leave the client waiting
            name = type(error).__name__
            self._inbox.put(Refused(message.job, f"preparing failed ({name})", fault=True))

    def _cancel(self, job: int) -> None:
        if job in self._preparing:
            self._preparing.discard(job)
            self._send(_cancelled(job))
            return
        for index, known in list(self._jobs.items()):
            if known == job:
                response = self._runtime.cancel(index)
                if response is not None:
                    self._report(response)

    def _report(self, event: TextDelta | Response) -> None:
        if isinstance(event, TextDelta):
            shown = tuple(map(self._texts.show, event.logprobs))
            self._send(Piece(self._jobs[event.index], event.text, shown))
            return
        job = self._jobs.pop(event.index)
        if event.error is not None:
            # Once there is a report the prompt was accepted, so it is the engine that failed.
            self._send(Refused(job, event.error, fault=event.report is not None))
            return
        self._send(
            Done(
                job=job,
                finish_reason=str(event.finish_reason),
                completion_tokens=len(event.token_ids),
                prompt_tokens=event.prompt_tokens,
                report=event.report.to_json() if event.report else None,
                placements=event.placements,
                timing=event.timing.to_json(),
                notes=event.notes,
            )
        )

    def _send(self, message: FromWorker) -> None:
        self._connection.send(message)

    def _read(self) -> None:
        try:
            while True:
                self._inbox.put(self._connection.recv())
        except (EOFError, OSError):
            # The HTTP side is gone. A step may be running, so do not wait for the loop.
            os._exit(0)


def _cancelled(job: int) -> Done:
    return Done(job, str(FinishReason.CANCELLED), 0, 0, None, (), {}, ())


def _device_bytes() -> int:
    return torch.cuda.memory_reserved() if torch.cuda.is_available() else 0
