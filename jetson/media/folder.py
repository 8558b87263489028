"""Files that clients may name: those of one folder, and nothing that leads out of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..errors import bad_request


def read_allowed_file(url: str, folder: Path | None, max_bytes: int, param: str) -> bytes:
    """The content of a ``file:`` URL inside ``folder``.

    Raises:
        ApiError: 400. Whether a file outside exists is not told.
    """
    if folder is None:
        raise bad_request(f"{param}: file URLs are not accepted by this service", param)
    parts = urlsplit(url)
    denied = bad_request(f"{param}: no such file in the folder that may be used", param)
    if parts.netloc not in ("", "localhost"):
        raise denied
    try:
        root = folder.resolve(strict=True)
        path = Path(unquote(parts.path)).resolve(strict=True)
        if not path.is_relative_to(root):
            raise denied
        # A pipe put in the file's place would make a plain open wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        raise denied from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise denied
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise bad_request(f"{param}: more than {max_bytes} bytes", param)
    return data
