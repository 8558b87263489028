"""What one request cost, in wall-clock milliseconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch


def now_ms() -> float:
    """A monotonic clock in milliseconds."""
    return time.perf_counter() * 1e3


@dataclass
class RequestTiming:
    """Stages of one request. Time to first token counts from the moment work on it began.

    Attributes:
        queue_ms: waiting for a free slot, before work began.
        media_ms: its images (decoding, resizing, cutting into patches) and rendering its prompt.
        image_decode_ms: the part of ``media_ms`` that read and decoded image files.
        vision_ms: the vision engine.
        prune_ms: the visual pruner, selection and compaction.
        prefill_ms: the language model over the (pruned) prompt, and the first token's sampling.
        token_ms: the time each token was ready, counted from the beginning of work.
    """

    submitted: float = field(default_factory=now_ms)
    started: float = 0.0
    queue_ms: float = 0.0
    media_ms: float = 0.0
    image_decode_ms: float = 0.0
    vision_ms: float = 0.0
    prune_ms: float = 0.0
    prefill_ms: float = 0.0
    token_ms: list[float] = field(default_factory=list)
    _marks: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = field(default_factory=list)

    def start(self) -> None:
        """Mark the beginning of work."""
        self.started = now_ms()
        self.queue_ms = self.started - self.submitted

    def token(self) -> None:
        """Mark a token as ready, read back from the device."""
        self._settle()
        self.token_ms.append(now_ms() - self.started)

    @property
    def ttft_ms(self) -> float | None:
        """Time to first token; ``None`` before there is one."""
        return self.token_ms[0] if self.token_ms else None

    @property
    def tpot_ms(self) -> float | None:
        """Mean time per output token after the first; ``None`` with fewer than two."""
        if len(self.token_ms) < 2:
            return None
        return (self.token_ms[-1] - self.token_ms[0]) / (len(self.token_ms) - 1)

    @property
    def gaps_ms(self) -> list[float]:
        """Times between consecutive tokens."""
        return [b - a for a, b in zip(self.token_ms, self.token_ms[1:], strict=False)]

    @contextmanager
    def stage(self, name: str, device: torch.device) -> Iterator[None]:
        """Add the time of a block to ``<name>_ms``.

        Work on a GPU is not waited for: events mark its ends, and :meth:`token`, called when the
        first token has been read back, turns them into times.
        """
        if device.type != "cuda":
            begin = now_ms()
            yield
            self._add(name, now_ms() - begin)
            return
        begin_mark, end_mark = _timing_event(), _timing_event()
        stream = torch.cuda.current_stream(device)
        begin_mark.record(stream)
        yield
        end_mark.record(stream)
        self._marks.append((name, begin_mark, end_mark))

    def _settle(self) -> None:
        for name, begin, end in self._marks:
            end.synchronize()
            self._add(name, begin.elapsed_time(end))
        self._marks.clear()

    def _add(self, name: str, elapsed: float) -> None:
        attribute = f"{name}_ms"
        setattr(self, attribute, getattr(self, attribute) + elapsed)

    def to_json(self) -> dict[str, float | None]:
        """The stages and the derived latencies, rounded to microseconds."""
        gaps = self.gaps_ms
        values = {
            "queue_ms": self.queue_ms,
            "media_ms": self.media_ms,
            "image_decode_ms": self.image_decode_ms,
            "vision_ms": self.vision_ms,
            "prune_ms": self.prune_ms,
            "prefill_ms": self.prefill_ms,
            "ttft_ms": self.ttft_ms,
            "tpot_ms": self.tpot_ms,
            "inter_token_p50_ms": percentile(gaps, 50),
            "inter_token_p95_ms": percentile(gaps, 95),
            "inter_token_p99_ms": percentile(gaps, 99),
        }
        return {key: None if v is None else round(v, 3) for key, v in values.items()}


def _timing_event() -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return event


def percentile(values: list[float], percent: float) -> float | None:
    """Linearly interpolated percentile; ``None`` of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
