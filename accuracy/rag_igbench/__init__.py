"""RAG-IGBench: how well an answer that interleaves text and retrieved images matches a reference.

The benchmark's paper ("RAG-IGBench: Innovative Evaluation for RAG-based Interleaved Generation in
Open-domain Question Answering") and its published code disagree in places; both forms are computed
and named here.
"""

from .answer import Interleaved, answer_of, read_markdown
from .data import Reference, read_answers, read_references
from .embedding import ImageTextEmbedder, TextEmbedder
from .errors import Undefined
from .score import Metrics, Outcome, SampleScore, score_sample
from .summary import Summary, summarise

__all__ = [
    "ImageTextEmbedder",
    "Interleaved",
    "Metrics",
    "Outcome",
    "Reference",
    "SampleScore",
    "Summary",
    "TextEmbedder",
    "Undefined",
    "answer_of",
    "read_answers",
    "read_markdown",
    "read_references",
    "score_sample",
    "summarise",
]
