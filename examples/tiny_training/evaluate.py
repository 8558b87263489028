"""Accuracy on held-out prompts during training."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from edgevlm.accuracy.tiny.buckets import Bucket
from edgevlm.accuracy.tiny.questions import TASKS
from edgevlm.accuracy.tiny.render import RenderTables

from .chunks import ChunkMaker
from .layout import Layout
from .network import TinyNetwork
from .objective import Objective
from .pool import Pool

Accuracies = dict[str, dict[str, float]]

HELD_OUT_SEED = 1000


class Evaluator:
    """Scores a network on a fixed set of held-out prompts, in the precision it is deployed in.

    Args:
        layouts: one per bucket to score.
        prompts: held-out prompts per bucket.
        batch_patches: patches per forward pass.
    """

    def __init__(
        self,
        layouts: list[Layout],
        tables: RenderTables,
        *,
        prompts: int,
        batch_patches: int,
        device: torch.device,
    ) -> None:
        self._dtype = torch.float16 if device.type == "cuda" else torch.float32
        self._batch_patches = batch_patches
        self._sets: list[tuple[Bucket, Objective, Pool]] = []
        questions = layouts[0].questions
        maker = ChunkMaker(questions, HELD_OUT_SEED, "heldout")
        for layout in layouts:
            pool = Pool(layout.bucket, questions, prompts, device)
            pool.add(maker.make(layout.bucket, 0, prompts))
            self._sets.append((layout.bucket, Objective(layout, tables, self._dtype), pool))

    @torch.no_grad()
    def score(self, network: TinyNetwork) -> Accuracies:
        """Share of right answers by bucket and task; ``network`` is left as it is."""
        deployed = copy.deepcopy(network).to(self._dtype).eval()
        return {
            bucket.name: self._score(deployed, objective, pool, bucket)
            for bucket, objective, pool in self._sets
        }

    def _score(
        self, network: TinyNetwork, objective: Objective, pool: Pool, bucket: Bucket
    ) -> dict[str, float]:
        step = max(1, self._batch_patches // bucket.patches)
        right: list[Tensor] = []
        tasks: list[Tensor] = []
        for start in range(0, pool.size, step):
            batch = pool.slice(start, min(step, pool.size - start))
            right.append(objective.correct(network, batch).flatten())
            tasks.append(batch.tasks.flatten())
        answers, kinds = torch.cat(right).float().cpu(), torch.cat(tasks).long().cpu()
        return {
            task: float(answers[kinds == index].mean())
            for index, task in enumerate(TASKS)
            if bool((kinds == index).any())
        }


def format_accuracies(scores: Accuracies) -> str:
    """A compact table: buckets down, tasks across, per cent."""
    lines = ["  bucket " + "".join(f"{task:>8}" for task in TASKS)]
    for bucket, row in scores.items():
        cells = "".join(f"{100 * row[task]:8.1f}" if task in row else " " * 8 for task in TASKS)
        lines.append(f"  {bucket:<7}" + cells)
    return "\n".join(lines)


def lowest(scores: Accuracies) -> float:
    """The accuracy of the worst task in the worst bucket."""
    return min(accuracy for row in scores.values() for accuracy in row.values())
