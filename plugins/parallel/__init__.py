"""Expert parallelism over ``torch.distributed``: each rank holds a part of a layer's experts."""

from .expert_parallel import ExpertParallel, Limit
from .launch import Ranks, joined
from .placement import Placement

__all__ = ["ExpertParallel", "Limit", "Placement", "Ranks", "joined"]
