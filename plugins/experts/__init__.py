"""The expert feed-forward of a mixture of experts: ``MoeExperts``."""

from .grouped import grouped_experts
from .reference import moe_experts

__all__ = ["grouped_experts", "moe_experts"]
