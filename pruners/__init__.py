"""Visual-token pruning: shorten an assembled prompt before it is prefilled.

A pruner of one's own is a subclass and a registration::

    class KeepFirst(VisualTokenPruner):
        def select(self, request: PruneRequest) -> torch.Tensor:
            spans = zip(request.io.spans, request.quotas)
            return torch.cat([torch.arange(s.start, s.start + quota) for s, quota in spans])

    register_visual_pruner("keep-first", KeepFirst)
    pruner = create_visual_pruner(VisualPrunerConfig(enabled=True, algorithm="keep-first"))
    shorter, report = pruner.prune(io)

A package can offer one through the entry point group ``edgevlm.visual_pruners`` instead.
"""

from .adaptive import ImageBudget
from .base import VisualTokenPruner
from .config import AUTO, Ratio, VisualPrunerConfig
from .dart import DartPruner
from .early import EarlyStates
from .registry import create_visual_pruner, register_visual_pruner, visual_pruner_names
from .report import PruneReport, SkipReason
from .request import PruneRequest
from .selection import MergeWeights, Selection, keeps_quotas

__all__ = [
    "AUTO",
    "DartPruner",
    "EarlyStates",
    "ImageBudget",
    "MergeWeights",
    "PruneReport",
    "PruneRequest",
    "Ratio",
    "Selection",
    "SkipReason",
    "VisualPrunerConfig",
    "VisualTokenPruner",
    "create_visual_pruner",
    "keeps_quotas",
    "register_visual_pruner",
    "visual_pruner_names",
]
