"""Requests in, text out: see :class:`~edgevlm.runtime.runtime.Runtime`."""

from .atomic_file import require_folder, write_atomically
from .expert_routing import ExpertRoutingConfig
from .profile import build_profile, format_profile
from .request import ChatRequest, ImagePart, Message, SamplingParams, TextPart, VideoPart
from .request_file import read_request_file
from .response import FinishReason, Response, TextDelta
from .response_file import response_document
from .runtime import Runtime

__all__ = [
    "ChatRequest",
    "ExpertRoutingConfig",
    "FinishReason",
    "ImagePart",
    "Message",
    "Response",
    "Runtime",
    "SamplingParams",
    "TextDelta",
    "TextPart",
    "VideoPart",
    "build_profile",
    "format_profile",
    "read_request_file",
    "require_folder",
    "response_document",
    "write_atomically",
]
