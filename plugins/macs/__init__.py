"""MACS (reconstruction): modality-aware expert capacity at prefill, and its baselines."""

from .baselines import expanded_drop, token_drop
from .config import NAME, SETTINGS, MacsConfig, require_onnx
from .counts_file import ModalityCounts, Provenance, load_counts, write_counts
from .groups import ModalityCounter, expert_groups
from .limiting import limited_experts, limited_routing
from .padded_experts import guaranteed_tokens, padded_experts
from .reference import Limited, macs_capacity
from .report import ENTRIES, MacsReport

__all__ = [
    "ENTRIES",
    "NAME",
    "SETTINGS",
    "Limited",
    "MacsConfig",
    "MacsReport",
    "ModalityCounter",
    "ModalityCounts",
    "Provenance",
    "expanded_drop",
    "expert_groups",
    "guaranteed_tokens",
    "limited_experts",
    "limited_routing",
    "load_counts",
    "macs_capacity",
    "padded_experts",
    "require_onnx",
    "token_drop",
    "write_counts",
]
