"""From a Hugging Face checkpoint to an engine directory."""

from . import target_onnxruntime, target_tensorrt, target_torch  # noqa: F401  (each registers)
from .build import STEPS, BuildConfig, build_engine
from .contract import Contract, text_contract, vision_contract
from .estimate import Estimate, estimate
from .inspection import EngineReport, PartReport, inspect_engine
from .network import Network
from .targets import Artifacts, Target, targets

__all__ = [
    "STEPS",
    "Artifacts",
    "BuildConfig",
    "Contract",
    "EngineReport",
    "Estimate",
    "Network",
    "PartReport",
    "Target",
    "build_engine",
    "estimate",
    "inspect_engine",
    "targets",
    "text_contract",
    "vision_contract",
]
