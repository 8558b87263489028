"""The tiny checkpoints' tokenizer: byte-level BPE, built like Qwen's, trained on our own questions.

Any text can be encoded: unknown words fall apart into bytes. Common words are one token each;
label characters and digits stay single tokens, because no label is part of the training text.
"""

from __future__ import annotations

from collections.abc import Iterator

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers.trainers import BpeTrainer

from .lexicon import COLOUR_NAMES, PLURALS, POSITIONS, SHAPES, with_article

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
# In the vocabulary as single tokens, but shown when special tokens are skipped.
MARKUP_TOKENS = ("<think>", "</think>", "<tool_call>", "</tool_call>")

_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_MAX_VOCABULARY = 1024

# Words of the templates and of what people ask a small demonstration model.
_PHRASES = (
    "What shape is at the . Which shape is in the ? Name the shape",
    "What colour is the shape at the ? Which colour is in the ? Name the colour at the .",
    "How many are there in image ? Count the . What is the number of shapes ? labels label",
    "Read the label . What does the label at the say? What is the text in ? Where is the ?",
    "Find the in image . Which image shows a ? Which image has an ? In which image is a ?",
    "What is the value in row , column of image ? Read the cell at row . What number is in",
    "images shapes colours rows columns table picture video frame seconds second",
    "yes no none nothing empty and or not this that describe",
    "You are a helpful assistant . Answer with one word . Hello ! Is there Are there",
)
# Words that start a turn or an answer, so without a space before them.
_FIRST_WORDS = ("system", "user", "assistant", "tool", "image", "yes", "no")


def build_tokenizer() -> Tokenizer:
    """Train the tokenizer; deterministic, well under a second."""
    tokenizer = Tokenizer(models.BPE(fuse_unk=False, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre.Sequence(
        [
            pre.Split(Regex(_SPLIT), behavior="isolated"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=_MAX_VOCABULARY,
        min_frequency=1,
        show_progress=False,
        special_tokens=[],
        initial_alphabet=sorted(pre.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(_training_text(), trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(t, special=False) for t in MARKUP_TOKENS])
    return tokenizer


def _training_text() -> Iterator[str]:
    yield from _PHRASES
    yield from _FIRST_WORDS
    for words in (SHAPES, PLURALS, COLOUR_NAMES, POSITIONS):
        for word in words:
            yield word  # an answer starts with it
            yield f"the {word}, {with_article(word)}."  # a question contains it
