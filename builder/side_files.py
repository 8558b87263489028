"""The small checkpoint files an engine carries along: tokenizer, processor, configuration."""

from __future__ import annotations

from pathlib import Path

from ..core import CheckpointError

# Each entry is a list of alternatives, of which one at least must be there.
_REQUIRED = {
    "llm": (("config.json",), ("tokenizer.json",), ("tokenizer_config.json",)),
    "visual": (("config.json",), ("preprocessor_config.json", "processor_config.json")),
}
_OPTIONAL = {
    "llm": ("chat_template.jinja", "chat_template.json", "generation_config.json"),
    "visual": ("video_preprocessor_config.json",),
}


def side_files(checkpoint: Path, kind: str) -> list[Path]:
    """The files of ``checkpoint`` that the runtime of a ``kind`` engine reads besides the model.

    Raises:
        CheckpointError: a required file is missing.
    """
    for alternatives in _REQUIRED[kind]:
        if not any((checkpoint / name).exists() for name in alternatives):
            raise CheckpointError(
                f"{checkpoint / alternatives[0]}: no such file; download it with the checkpoint"
            )
    required = [name for alternatives in _REQUIRED[kind] for name in alternatives]
    paths = (checkpoint / name for name in (*required, *_OPTIONAL[kind]))
    return [path for path in paths if path.exists()]
