"""What is kept of one answered sample: a line of ``answers.jsonl``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from ...core.decode import DecodeError, decode
from ...runtime import Response
from ..datasets import Sample
from ..scoring import score

Key = tuple[str, str, str]
"""Engine, setting and sample."""


@dataclass(frozen=True)
class Times:
    """Milliseconds of one request.

    Attributes:
        first_token: from the end of the vision tower to the first token: pruning and prefill. The
            tower is left out because it runs once for all settings.
        prune: the part of it that chose and compacted.
    """

    first_token: float
    prune: float


@dataclass(frozen=True)
class Answer:
    """One sample's answer under one setting on one engine.

    Attributes:
        read: what the scoring understood; ``None`` where it could make nothing of the text.
        score: 0 to 1; ``None`` where the request failed or its scoring judges nothing.
        visual_tokens: before and after pruning.
        skipped: why nothing was pruned, where it was asked for.
        error: why there is no answer.
    """

    engine: str
    setting: str
    sample: str
    text: str = ""
    read: str | None = None
    score: float | None = None
    visual_tokens: tuple[int, ...] = (0, 0)
    skipped: str | None = None
    times: Times | None = None
    error: str | None = None

    @classmethod
    def of(cls, engine: str, setting: str, sample: Sample, response: Response) -> Answer:
        """Score a response."""
        report, timing = response.report, response.timing
        if response.error is not None or report is None:
            return cls(engine, setting, sample.id, error=_without_paths(response.error, sample))
        verdict = score(sample.scoring, response.text, sample.answers, sample.choices)
        waited = (timing.ttft_ms or 0.0) - timing.media_ms - timing.vision_ms
        return cls(
            engine,
            setting,
            sample.id,
            text=response.text,
            read=verdict.read,
            score=verdict.score,
            visual_tokens=(report.visual_tokens_before, report.visual_tokens_after),
            skipped=None if report.skipped is None else str(report.skipped),
            times=Times(round(max(waited, 0.0), 3), round(timing.prune_ms, 3)),
        )

    @property
    def key(self) -> Key:
        """What it answers; there is one answer for each."""
        return self.engine, self.setting, self.sample

    def to_line(self) -> str:
        """One line of JSON, with its end."""
        return json.dumps(asdict(self), ensure_ascii=False) + "\n"

    @classmethod
    def from_line(cls, line: bytes) -> Answer | None:
        """Read a line; ``None`` if it is torn or otherwise no answer."""
        try:
            return decode(cls, json.loads(line))
        except (ValueError, DecodeError):
            return None


def _without_paths(error: str | None, sample: Sample) -> str:
    """A message that names files alone, not where on this machine they are."""
    message = error or "no answer"
    for source in sample.images:
        if len(str(source)) < len(message):
            message = message.replace(str(source), getattr(source, "name", str(source)))
    return message
