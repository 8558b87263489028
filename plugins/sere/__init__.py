"""SERE: similarity-based re-routing of secondary experts at decode."""

from .calibration import Calibration, calibrate
from .config import PROTECT_RULES, SereConfig, default_protected
from .protection import protected_experts
from .routing import sere_routing
from .similarity import METRICS
from .slots import merge_duplicates, sort_slots
from .strength import Ramp
from .table_file import Provenance, SereTable, load_table
from .texts import read_texts, token_block

__all__ = [
    "METRICS",
    "PROTECT_RULES",
    "Calibration",
    "Provenance",
    "Ramp",
    "SereConfig",
    "SereTable",
    "calibrate",
    "default_protected",
    "load_table",
    "merge_duplicates",
    "protected_experts",
    "read_texts",
    "sere_routing",
    "sort_slots",
    "token_block",
]
