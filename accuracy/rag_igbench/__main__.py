"""Score a model's answers to RAG-IGBench.

    python -m edgevlm.accuracy.rag_igbench --references data.jsonl --answers answers.jsonl \
        --stop-words RAG-IGBench/score/cn_stopwords.txt \
        --text-model TencentBAC/Conan-embedding-v1 \
        --image-model ViT-L-14:openai --image-folder images

References are the benchmark's own file; an answer is a line {"id": ..., "model_answer": "..."},
with the model's output as it came. Metrics whose model is not named are reported as not computed.
ROUGE-1 needs the package jieba and the benchmark's stop words, the alignment score
sentence-transformers, the CLIP score open-clip-torch and the images.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ...core import UsageError, exit_status
from ...runtime import write_atomically
from .data import load_image, read_answers, read_references
from .embedding import OpenClipEmbedder, SentenceTransformersEmbedder
from .rouge import Rouge1, jieba_segmenter, read_stop_words
from .score import Metrics, SampleScore, score_sample
from .summary import Summary, summarise


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report; 0, or 2 with one line on what is wrong."""
    arguments = _parse(argv)
    return exit_status(lambda: _run(arguments))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m edgevlm.accuracy.rag_igbench",
        description="Score a model's answers to RAG-IGBench.",
    )
    parser.add_argument("--references", type=Path, required=True, metavar="FILE")
    parser.add_argument("--answers", type=Path, required=True, metavar="FILE")
    parser.add_argument("--stop-words", type=Path, metavar="FILE", help="for ROUGE-1")
    parser.add_argument("--text-model", metavar="NAME", help="for the alignment score")
    parser.add_argument("--image-model", metavar="NAME:WEIGHTS", help="for the CLIP score")
    parser.add_argument("--image-folder", type=Path, metavar="DIR", help="for the CLIP score")
    parser.add_argument("--device", help="of the models: cpu, cuda, cuda:1, ...")
    parser.add_argument("--output", type=Path, metavar="FILE", help="everything as JSON")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> None:
    if (arguments.image_model is None) != (arguments.image_folder is None):
        raise UsageError("--image-model and --image-folder belong together; give both or neither")
    references = read_references(arguments.references)
    answers = read_answers(arguments.answers, references)
    metrics = _metrics(arguments)
    scores = [score_sample(r, answers.get(name), metrics) for name, r in references.items()]
    summary = summarise(scores)
    print("\n".join(summary.lines()))
    if arguments.output is not None:
        document = _document(summary, scores)
        write_atomically(arguments.output, json.dumps(document, indent=2, ensure_ascii=False))


def _metrics(arguments: argparse.Namespace) -> Metrics:
    words, text, image = arguments.stop_words, arguments.text_model, arguments.image_model
    device, folder = arguments.device, arguments.image_folder
    return Metrics(
        rouge=Rouge1(jieba_segmenter(), read_stop_words(words)) if words else None,
        text=SentenceTransformersEmbedder(text, device) if text else None,
        image=OpenClipEmbedder(image, device) if image else None,
        load=partial(load_image, folder) if folder else None,
    )


def _document(summary: Summary, scores: Sequence[SampleScore]) -> dict[str, object]:
    return {
        "counts": summary.counts,
        "means": summary.means,
        "integrated_repo": summary.integrated_repo,
        "integrated_mean5": summary.integrated_mean5,
        "samples": [
            {"id": s.id, "outcome": s.outcome, "reason": s.reason, **s.values} for s in scores
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
