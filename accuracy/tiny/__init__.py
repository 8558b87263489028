"""The tiny world: procedurally drawn scenes, questions about them, and the checkpoint they train.

Everything is a pure function of a seed and an index, so an evaluation set needs no files.
"""

from .buckets import BUCKETS, Bucket
from .checkpoint import join_shards, read_weights, write_assets, write_weights
from .heldout import HeldOutSample, heldout, tasks_of
from .questions import TASKS, Question
from .render import RenderTables, render, render_tables
from .samples import Sample, draw_sample
from .scenes import Item, Scene
from .tokenizer import build_tokenizer

__all__ = [
    "BUCKETS",
    "TASKS",
    "Bucket",
    "HeldOutSample",
    "Item",
    "Question",
    "RenderTables",
    "Sample",
    "Scene",
    "build_tokenizer",
    "draw_sample",
    "heldout",
    "join_shards",
    "read_weights",
    "render",
    "render_tables",
    "tasks_of",
    "write_assets",
    "write_weights",
]
