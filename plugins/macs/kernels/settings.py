"""Places of options in the settings tensor and of entries in the report, for kernels to name."""

from __future__ import annotations

import triton
import triton.language as tl

from ..config import PLACE, choice
from ..entropy import UNIT as _UNIT
from ..report import ENTRIES

UNIT = tl.constexpr(_UNIT)

METHOD = tl.constexpr(PLACE["method"])
CAPACITY_FACTOR = tl.constexpr(PLACE["capacity_factor"])
GAIN = tl.constexpr(PLACE["gain"])
SENSITIVITY = tl.constexpr(PLACE["sensitivity"])
MINIMUM_CAPACITY = tl.constexpr(PLACE["minimum_capacity"])
REROUTE_THRESHOLD = tl.constexpr(PLACE["reroute_threshold"])
TOKEN_LIMIT = tl.constexpr(PLACE["token_limit"])
EPSILON = tl.constexpr(PLACE["epsilon"])
ZSCORE_SCOPE = tl.constexpr(PLACE["zscore_scope"])
CAPACITY_BASIS = tl.constexpr(PLACE["capacity_basis"])
ORDER = tl.constexpr(PLACE["order"])
REROUTE = tl.constexpr(PLACE["reroute"])
LOCALITY = tl.constexpr(PLACE["locality"])
SIMILARITY = tl.constexpr(PLACE["similarity"])
REROUTED_WEIGHT = tl.constexpr(PLACE["rerouted_weight"])
RENORMALIZE = tl.constexpr(PLACE["renormalize"])
KEEP_TOP1_TEXT = tl.constexpr(PLACE["keep_top1_text"])
DISABLE_WHEN_TEXT_ONLY = tl.constexpr(PLACE["disable_when_text_only"])
DEVICES = tl.constexpr(PLACE["devices"])
DEVICE = tl.constexpr(PLACE["device"])

METHOD_OFF = tl.constexpr(choice("method", "off"))
METHOD_TOKEN_DROP = tl.constexpr(choice("method", "token_drop"))
SCOPE_IMAGE = tl.constexpr(choice("zscore_scope", "image"))
BASIS_EFFECTIVE = tl.constexpr(choice("capacity_basis", "effective"))
ORDER_WEIGHTED = tl.constexpr(choice("order", "weighted_score"))
ORDER_TEXT_FIRST = tl.constexpr(choice("order", "text_first"))
LOCALITY_SOURCE = tl.constexpr(choice("locality", "source"))
SIMILARITY_EXPERT = tl.constexpr(choice("similarity", "expert"))
WEIGHT_TARGET = tl.constexpr(choice("rerouted_weight", "target"))

REPORT_SIZE = tl.constexpr(len(ENTRIES))
ROWS = tl.constexpr(ENTRIES.index("rows"))
VISUAL_ROWS = tl.constexpr(ENTRIES.index("visual_rows"))
WEIGHT = tl.constexpr(ENTRIES.index("weight"))
VISUAL_RATIO = tl.constexpr(ENTRIES.index("visual_ratio"))
CAPACITY_LEAST = tl.constexpr(ENTRIES.index("capacity_least"))
CAPACITY_MOST = tl.constexpr(ENTRIES.index("capacity_most"))
RAW_BEFORE = tl.constexpr(ENTRIES.index("raw_before"))
RAW_AFTER = tl.constexpr(ENTRIES.index("raw_after"))
EFFECTIVE_BEFORE = tl.constexpr(ENTRIES.index("effective_before"))
EFFECTIVE_AFTER = tl.constexpr(ENTRIES.index("effective_after"))
DEVICE_BEFORE = tl.constexpr(ENTRIES.index("device_before"))
DEVICE_AFTER = tl.constexpr(ENTRIES.index("device_after"))
REROUTED = tl.constexpr(ENTRIES.index("rerouted"))
DROPPED_VISUAL = tl.constexpr(ENTRIES.index("dropped_visual"))
DROPPED_TEXT = tl.constexpr(ENTRIES.index("dropped_text"))
LOST_ROWS = tl.constexpr(ENTRIES.index("lost_rows"))
OVER_CAPACITY = tl.constexpr(ENTRIES.index("over_capacity"))


@triton.jit
def option(settings, place: tl.constexpr):
    """A flag, a word or a count among the settings."""
    return tl.load(settings + place).to(tl.int32)


@triton.jit
def options(settings, place: tl.constexpr, SIZE: tl.constexpr):
    """The same, ``SIZE`` times, to be compared and combined with masks."""
    return tl.full((SIZE,), option(settings, place), tl.int32)
