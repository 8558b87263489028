"""What every other package may use: errors, registry, the assembled prompt, engine manifests."""

from .errors import CheckpointError, EdgeVLMError, EngineError, RequestError, UsageError
from .exit_status import exit_status
from .limits import EngineLimits
from .manifest import Manifest
from .manifest_file import open_manifest
from .pipeline_io import PipelineIO, VisualSpan
from .registry import Registry

__all__ = [
    "CheckpointError",
    "EdgeVLMError",
    "EngineError",
    "EngineLimits",
    "Manifest",
    "PipelineIO",
    "Registry",
    "RequestError",
    "UsageError",
    "VisualSpan",
    "exit_status",
    "open_manifest",
]
