"""Train a tiny Qwen3-VL checkpoint; docstring of each flag: ``--help``.

    python examples/train_tiny.py --work work/tiny --smoke --minutes 1.5
    python examples/train_tiny.py --work work/tiny --stage first --minutes 9
    python examples/train_tiny.py --work work/tiny --stage wide --resume --minutes 9.5 \
        --decay-minutes 5 --export checkpoints/tiny
"""

import time

_STARTED = time.monotonic()

import os  # noqa: E402

# Before the tokenizer library is loaded: generating processes are forked.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from tiny_training.loop import train  # noqa: E402
from tiny_training.options import parse_options  # noqa: E402
from tiny_training.smoke import smoke  # noqa: E402


def main() -> None:
    """Entry point."""
    options = parse_options()
    (smoke if options.smoke else train)(options, _STARTED)


if __name__ == "__main__":
    main()
