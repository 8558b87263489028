"""The Qwen3-VL networks, written once, and what they need to know of a checkpoint."""

from .checkpoint import Checkpoint
from .config import ModelConfig, MoeConfig, TextConfig, VisionConfig, load_config, parse_config
from .operators import Operators, TextOperators, rotate_half_split
from .rope import mrope_cos_sin, patch_coordinates, position_interpolation, vision_cos_sin
from .routing import Routing, top_experts
from .text import TextModel
from .vision import VisionTower

__all__ = [
    "Checkpoint",
    "ModelConfig",
    "MoeConfig",
    "Operators",
    "Routing",
    "TextConfig",
    "TextModel",
    "TextOperators",
    "VisionConfig",
    "VisionTower",
    "load_config",
    "mrope_cos_sin",
    "parse_config",
    "patch_coordinates",
    "position_interpolation",
    "rotate_half_split",
    "top_experts",
    "vision_cos_sin",
]
