"""Taking a model's answer apart: its markdown, the images in it and the text around each."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_IMAGE = re.compile(r"!\[.*?\]\(IMG#(\d+)\)")
_CITATION = re.compile(r"<sup>\[.*?\]\(.*?\)</sup>")
_CONTEXT = 20  # characters on each side of an image

_OPENING = '"answer": "'


@dataclass(frozen=True)
class Interleaved:
    """Markdown with images, read.

    Args:
        text: what is left without citations and images.
        images: image numbers, from 1, in the order of appearance; repetitions stay.
        contexts: for each number, the 20 characters on either side of the image where it appears
            last, citations taken out before counting and images after.
    """

    text: str
    images: tuple[int, ...]
    contexts: dict[int, str]


def read_markdown(markdown: str) -> Interleaved:
    """Read ``![](IMG#n)`` images and ``<sup>[..](..)</sup>`` citations."""
    cited = _CITATION.sub("", markdown)
    contexts = {}
    for match in _IMAGE.finditer(cited):
        around = cited[max(0, match.start() - _CONTEXT) : match.end() + _CONTEXT]
        contexts[int(match[1])] = _IMAGE.sub("", around)
    # From the whole text, as published: a citation may run over an image, which still counts.
    images = tuple(int(number) for number in _IMAGE.findall(markdown))
    return Interleaved(_IMAGE.sub("", cited).strip(), images, contexts)


def answer_of(output: str) -> str | None:
    """The markdown in a model's output, ``{"answer": "..."}``; ``None`` if that is not to be found.

    Line breaks come back as ``<br>``, as in the published code. Output that is not JSON is mended
    the way that does it: code fences and whatever precedes the first brace are dropped, a
    missing end is added, bare line breaks and quotes inside the answer are replaced. Unlike there,
    output that is valid JSON is taken at its word, whatever its spacing and its quotes.
    """
    unfenced = output.strip().strip("`").strip("json").strip()
    answer = _string(unfenced)
    if answer is None:
        answer = _string(_mended(unfenced))
    return None if answer is None else answer.replace("\n", "<br>")


def _string(document: str | None) -> str | None:
    try:
        parsed = json.loads(document) if document is not None else None
    except (ValueError, RecursionError):
        return None
    answer = parsed.get("answer") if isinstance(parsed, dict) else None
    return answer if isinstance(answer, str) else None


def _mended(text: str) -> str | None:
    """``text`` as an object of one string, or ``None`` if it does not even begin like that."""
    text = text[text.find("{") :].strip()
    if not text.endswith("}"):
        text += "}"
    if not text[:-1].rstrip().endswith('"'):
        text = text[:-1] + '"}'
    _, opening, rest = text.partition(_OPENING)
    if not opening:
        return None
    inside, quote, end = rest.rpartition('"')
    if not quote:
        return None
    inside = inside.replace('"', "'").replace("\\n", "<br>").replace("\n", "<br>")
    return f'{{"answer": "{inside}"{end}'
