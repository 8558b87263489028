"""The sizes an engine is built for; every request and every buffer stays inside them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .errors import UsageError


@dataclass(frozen=True)
class EngineLimits:
    """Upper bounds, all inclusive and at least one.

    The defaults take a one-megapixel image (1024 visual tokens of 32x32 pixels) with its question
    and leave 1024 KV slots for the answer. ``max_image_tokens`` may exceed ``max_input_len``: a
    pruner may shorten the image before it becomes part of the prompt.

    Raises:
        UsageError: a value is not a positive integer, or two of them contradict each other.
    """

    max_input_len: int = 3072  # tokens of one prompt, after pruning
    max_kv_len: int = 4096  # KV slots of one sequence: its prompt and its answer
    max_batch: int = 4  # sequences decoded together
    max_image_tokens: int = 1024  # of one image or video frame pair, before pruning
    max_images: int = 4  # images or frame pairs of one vision call

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise UsageError(f"{field.name} is {value!r}; it must be an integer of at least 1")
        if self.max_input_len > self.max_kv_len:
            raise UsageError(
                f"max_input_len is {self.max_input_len} but max_kv_len is {self.max_kv_len}:"
                " a prompt must fit the KV cache; lower the first or raise the second"
            )
