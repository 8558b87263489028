"""All metrics of one sample, or why it has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from PIL import Image

from .alignment import alignment
from .answer import answer_of, read_markdown
from .clip import clip_score
from .data import Reference
from .embedding import ImageTextEmbedder, TextEmbedder
from .errors import Undefined
from .order import edit_distance, kendall_paper, kendall_raw, with_difficulty
from .rouge import Rouge1

LoadImage = Callable[[str], Image.Image]

# Names of all values, in the order of reports; "paper" and "code" where the two differ.
VALUES = (
    "rouge_1",
    "edit_distance",
    "kendall_code",
    "kendall_paper",
    "alignment_code",
    "alignment_paper",
    "clip_code",
    "clip_paper",
)


class Outcome(StrEnum):
    """What became of a sample; only ``SCORED`` ones count in the means."""

    SCORED = "scored"
    INVALID_FORMAT = "invalid format"  # no JSON object with an answer, and none to be mended
    HALLUCINATION = "hallucination"  # an image that is no candidate
    UNDEFINED = "undefined"  # a metric has no value; the published code drops these silently
    MISSING = "no answer"


@dataclass(frozen=True)
class Metrics:
    """The models at hand; a metric whose model is ``None`` is not computed.

    ``image`` and ``load`` go together: the embedder, and the candidate image of a name.
    """

    rouge: Rouge1 | None = None
    text: TextEmbedder | None = None
    image: ImageTextEmbedder | None = None
    load: LoadImage | None = None


@dataclass(frozen=True)
class SampleScore:
    """The values of one sample, 0 to 1 (plain cosines: -1 to 1), by their names in ``VALUES``."""

    id: str
    outcome: Outcome
    reason: str = ""
    values: dict[str, float] = field(default_factory=dict)


def score_sample(reference: Reference, output: str | None, metrics: Metrics) -> SampleScore:
    """Compare a model's ``output`` (``None``: there is none) with the reference.

    Image 0 counts as hallucinated; the published code takes it for the last candidate.
    """
    if output is None:
        return SampleScore(reference.id, Outcome.MISSING)
    answer = answer_of(output)
    if answer is None:
        return SampleScore(reference.id, Outcome.INVALID_FORMAT)
    candidates = len(reference.candidates)
    strange = [n for n in read_markdown(answer).images if not 1 <= n <= candidates]
    if strange:
        reason = f"image {strange[0]} of {candidates}"
        return SampleScore(reference.id, Outcome.HALLUCINATION, reason)
    try:
        values = _values(answer, reference, metrics)
    except Undefined as error:
        return SampleScore(reference.id, Outcome.UNDEFINED, str(error))
    return SampleScore(reference.id, Outcome.SCORED, values=values)


def _values(answer: str, reference: Reference, metrics: Metrics) -> dict[str, float]:
    mine, wanted = read_markdown(answer), read_markdown(reference.answer)
    kendall = kendall_raw(mine.images, wanted.images)
    values = {
        "edit_distance": edit_distance(mine.images, wanted.images),
        "kendall_code": with_difficulty(kendall, len(reference.candidates), len(wanted.images)),
        "kendall_paper": kendall_paper(mine.images, wanted.images),
    }
    if metrics.rouge is not None:
        values["rouge_1"] = metrics.rouge(mine.text, wanted.text)
    if metrics.text is not None:
        found = alignment(mine, wanted, metrics.text)
        values |= {"alignment_code": found.rescaled, "alignment_paper": found.cosine}
    if metrics.image is not None and metrics.load is not None:
        load = metrics.load
        found = clip_score(mine, lambda n: load(reference.candidates[n - 1]), metrics.image)
        values |= {"clip_code": found.rescaled, "clip_paper": found.cosine}
    return values
