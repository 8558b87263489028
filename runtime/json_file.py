"""JSON files of a checkpoint, of which several are optional."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..core import CheckpointError


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in ``path``; ``None`` if there is no such file.

    Raises:
        CheckpointError: it is not JSON, or not an object.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: must be a JSON object")
    return found
