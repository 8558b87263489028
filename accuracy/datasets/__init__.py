"""Data sets: one normalised form, and the converters that make it from what is published."""

from .dataset import DataSet, Problem, read_dataset
from .prepare import PUBLISHED, Prepared, prepare_published, prepare_tiny
from .sample import Sample

__all__ = [
    "PUBLISHED",
    "DataSet",
    "Prepared",
    "Problem",
    "Sample",
    "prepare_published",
    "prepare_tiny",
    "read_dataset",
]
