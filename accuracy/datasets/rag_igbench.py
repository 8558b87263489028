"""RAG-IGBench, as published: ``data.jsonl`` or ``data.json`` with a folder ``images``.

A sample is a question, retrieved documents, and the images of each document; the wanted answer
interleaves text and images. It is not scored here but by ``edgevlm.accuracy.rag_igbench``. The
prompt asks for the form that reads, in our own words: scores are comparable between settings, not
with those the benchmark's own prompt leads to.
"""

from __future__ import annotations

from pathlib import Path

from ...core import RequestError
from ...runtime.json_cursor import JsonCursor
from .draft import Draft, Image, text_of
from .rows import Row

MAX_TOKENS = 2048
_SUFFIXES = ("", ".jpg", ".jpeg", ".png", ".webp")
_TASK = (
    "Answer the question from the documents and images below, in the language of the question."
    " Write Markdown. Cite a document once, where it supports what you say, as"
    " <sup>[n](DOC#n)</sup>. Insert an image once, where it helps, as ![](IMG#n). Reply with JSON"
    ' alone: {"answer": "..."}.'
)


def convert(row: Row, file: Path) -> Draft:
    """One entry as a draft; images are looked for below ``images`` beside ``file``.

    Raises:
        RequestError: a key is missing or wrong, or an image is not there.
    """
    node = JsonCursor(row)
    parts: list[str | Image] = [f"{_TASK}\n\nQuestion: {text_of(row, 'query')}"]
    documents = [entry.string() for entry in node["documents"].items()]
    images = [[name.string() for name in entry.items()] for entry in node["images"].items()]
    if len(documents) != len(images):
        raise RequestError(
            f"has {len(documents)} documents but images for {len(images)}; fetch the file again"
        )
    number = 0
    for index, (document, names) in enumerate(zip(documents, images, strict=True), 1):
        parts.append(f"DOC#{index}\n{document}")
        for name in names:
            number += 1
            parts += [f"IMG#{number}", _file(file.parent, name)]
    kinds = [entry.string() for entry in node["category"].items()] if "category" in node else []
    return Draft(
        id=text_of(row, "id"),
        task=kinds[-1] if kinds else "all",
        subtask=kinds[0] if len(kinds) > 1 else "",
        parts=parts,
        answers=(text_of(row, "gt_answer"),),
        scoring="none",
        max_tokens=MAX_TOKENS,
    )


def _file(folder: Path, name: str) -> Path:
    for start in (folder, folder / "images"):
        for suffix in _SUFFIXES:
            path = start / f"{name}{suffix}"
            if path.is_file():
                return path
    raise RequestError(f"there is no image {name} in images; fetch the benchmark's images")
