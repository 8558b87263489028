"""Reading and writing ``manifest.json``; a stale or damaged engine is refused here, by name."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from .decode import DecodeError, decode
from .errors import EdgeVLMError, EngineError
from .manifest import FORMAT_VERSION, MANIFEST_NAME, FileDigest, Manifest

_REBUILD = "edgevlm build --checkpoint CHECKPOINT --output {output} --target TARGET"


def write_manifest(manifest: Manifest, engine_dir: Path) -> None:
    """Write ``engine_dir/manifest.json``."""
    text = json.dumps(dataclasses.asdict(manifest), indent=2) + "\n"
    (engine_dir / MANIFEST_NAME).write_text(text, encoding="utf-8")


def read_manifest(engine_dir: Path) -> Manifest:
    """Read ``engine_dir/manifest.json`` without looking at the other files.

    Raises:
        EngineError: it is missing, is not JSON, has another format version or lacks a field.
    """
    path = engine_dir / MANIFEST_NAME
    remedy = "rebuild: " + _REBUILD.format(output=engine_dir.absolute().parent)
    try:
        raw: Any = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise EngineError(f"{path}: no such file; is this an engine directory? {remedy}") from None
    except OSError as error:
        raise EngineError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise EngineError(f"{path}: not valid JSON ({error}); {remedy}") from None
    version = raw.get("format_version") if isinstance(raw, dict) else None
    if version != FORMAT_VERSION:
        raise EngineError(
            f"{path}: format version {version!r}, this edgevlm reads {FORMAT_VERSION}; {remedy}"
        )
    try:
        return decode(Manifest, raw)
    except (DecodeError, EdgeVLMError) as error:
        raise EngineError(f"{path}: {error}; {remedy}") from None


def open_manifest(engine_dir: Path, kind: str) -> Manifest:
    """Read the manifest of an engine about to be run and check its model files against it.

    Raises:
        EngineError: see :func:`read_manifest`; the engine is of another kind; a model file is
            missing or was changed after the build.
    """
    manifest = read_manifest(engine_dir)
    if manifest.kind != kind:
        raise EngineError(
            f"{engine_dir}: this is a {manifest.kind!r} engine, {kind!r} is needed here;"
            f" an engine directory NAME holds them as NAME/llm and NAME/visual"
        )
    for name, built in manifest.files.items():
        try:
            found = digest(engine_dir / name)
        except FileNotFoundError:
            problem = f"{name} is missing"
        else:
            if found == built:
                continue
            problem = (
                f"{name} was changed after the build: sha256 {found.sha256[:12]},"
                f" {found.bytes} bytes; built as {built.sha256[:12]}, {built.bytes} bytes"
            )
        remedy = manifest.rebuild_command(engine_dir)
        raise EngineError(f"{engine_dir}: {problem}; rebuild: {remedy}")
    return manifest


def digest(path: Path) -> FileDigest:
    """Size and SHA-256 of a file."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return FileDigest(bytes=file.tell(), sha256=sha256)
