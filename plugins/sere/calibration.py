"""Measuring how alike the experts of each layer are, on texts.

SERE's offline step (section 4.2 of the production article): no training, no labels. The model runs
one layer at a time over all texts, so one layer's weights are in memory at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...core import UsageError
from ...core.manifest import edgevlm_version
from ...models import Checkpoint, Routing, mrope_cos_sin
from ...models.text import DecoderLayer
from .config import PROTECT_RULES
from .layers import ObservingOperators, load_layer
from .similarity import METRICS, Similarity
from .table_file import Provenance, mass_name, similarity_name, write_table
from .work_file import Work, WorkFile

Progress = Callable[[int, int, float], None]
"""Called with the layer at work, the number of layers, and the part of all work that is done."""


@dataclass(frozen=True)
class Calibration:
    """What to measure.

    Args:
        tokens: ``[n,S]`` token ids of the calibration texts.
        task_tokens: ``[m,S]`` ids of the tasks whose routing weighs experts for protection;
            ``None`` takes the calibration texts.
        metric: a name of ``METRICS``.
        protect_by: the rule a run follows that names none; one of ``PROTECT_RULES``.

    Raises:
        UsageError: a name is unknown, or the two sets differ in length.
    """

    tokens: Tensor
    task_tokens: Tensor | None = None
    metric: str = "frobenius"
    protect_by: str = "least-replaceable"

    def __post_init__(self) -> None:
        for name, value, legal in (
            ("metric", self.metric, METRICS),
            ("protect_by", self.protect_by, PROTECT_RULES),
        ):
            if value not in legal:
                raise UsageError(f"{name} must be one of {', '.join(legal)}, got {value!r}")
        if min(self.tokens.shape) < 1 or self.tokens.shape[1] < 2:
            raise UsageError("calibration needs at least one text of at least two tokens")
        if self.task_tokens is not None and self.task_tokens.shape[1] != self.tokens.shape[1]:
            raise UsageError("task texts must have as many tokens as calibration texts")

    @property
    def all_tokens(self) -> Tensor:
        """``[n+m,S]``."""
        tasks = [] if self.task_tokens is None else [self.task_tokens]
        return torch.cat([self.tokens, *tasks])

    def provenance(self, checkpoint: Checkpoint, dtype: torch.dtype) -> Provenance:
        """What the file says of itself."""
        return Provenance(
            checkpoint=checkpoint.directory.absolute().name,
            fingerprint=checkpoint.fingerprint,
            metric=self.metric,
            tokens=str(self.tokens.numel()),
            data=_digest(self.tokens),
            task_data="" if self.task_tokens is None else _digest(self.task_tokens),
            protect_by=self.protect_by,
            dtype=str(dtype).removeprefix("torch."),
            edgevlm=edgevlm_version(),
        )


def calibrate(
    checkpoint: Checkpoint,
    calibration: Calibration,
    output: Path,
    device: torch.device,
    on_progress: Progress = lambda layer, layers, done: None,
) -> Provenance:
    """Measure and write ``output``.

    Work done is kept in ``output`` + ``.partial`` layer by layer. A process that was killed is
    taken up there by the next one of the same settings, with the same result.

    Args:
        device: computes; in fp32 on a CPU, in the checkpoint's dtype elsewhere.

    Raises:
        UsageError: the checkpoint has no experts, or a file cannot be written.
        CheckpointError: a weight is missing or has the wrong shape.
    """
    text = checkpoint.config.text
    if text.moe is None:
        raise UsageError(f"{checkpoint.directory}: not a mixture of experts; nothing to calibrate")
    table = checkpoint.embedding_table()
    dtype = torch.float32 if device.type == "cpu" else table.dtype
    provenance = calibration.provenance(checkpoint, dtype)
    file = WorkFile(output.with_name(f"{output.name}.partial"), vars(provenance))
    work = file.load() or Work(0, table[calibration.all_tokens].to(dtype))
    for index in range(work.next_layer, text.num_layers):
        layer = load_layer(checkpoint, index, dtype, device)
        measure = _LayerMeasure(calibration, text.moe.num_experts, device)

        def tell(done: float, index: int = index) -> None:
            on_progress(index, text.num_layers, (index + done) / text.num_layers)

        with torch.inference_mode():
            measure.run(layer, work.hidden, _angles(checkpoint, work.hidden, device), tell)
        if index in text.moe_layers:
            work.found[similarity_name(index)] = measure.similarity.result()
            work.found[mass_name(index)] = measure.routed_mass()
        work.next_layer = index + 1
        file.save(work)
    write_table(output, work.found, provenance)
    file.remove()
    return provenance


class _LayerMeasure:
    """One layer's pass over all texts, in groups of a size the measure asks for."""

    def __init__(self, calibration: Calibration, experts: int, device: torch.device) -> None:
        self._texts = len(calibration.tokens)
        self._has_tasks = calibration.task_tokens is not None
        self._device = device
        self._mass = torch.zeros(experts, dtype=torch.float64, device=device)
        self.similarity: Similarity = METRICS[calibration.metric](experts, device)

    def run(
        self,
        layer: DecoderLayer,
        hidden: Tensor,  # [n,S,H]; becomes that behind the layer
        angles: tuple[Tensor, Tensor],  # each [1,S,D/2]
        tell: Callable[[float], None],
    ) -> None:
        size = max(1, self.similarity.chunk // hidden.shape[1])
        for start, end in _groups(self._texts, len(hidden), size):
            is_task = start >= self._texts
            cos, sin = (rows.expand(end - start, -1, -1) for rows in angles)
            ops = ObservingOperators(self._watch_tasks if is_task else self._watch_texts)
            group = hidden[start:end].to(self._device)
            hidden[start:end] = layer(group, cos, sin, ops).to(hidden.device)
            tell(end / len(hidden))

    def routed_mass(self) -> Tensor:
        """``[N]`` fp32: each expert's part of all router weights."""
        return (self._mass / self._mass.sum()).float().cpu()

    def _watch_texts(self, outputs: Tensor, routing: Routing) -> None:
        self.similarity.update(outputs)
        if not self._has_tasks:
            self._watch_tasks(outputs, routing)

    def _watch_tasks(self, outputs: Tensor, routing: Routing) -> None:
        self._mass.index_add_(0, routing.ids.flatten(), routing.weights.flatten().double())


def _groups(texts: int, total: int, size: int) -> list[tuple[int, int]]:
    """Ranges of at most ``size`` that no boundary between texts and tasks lies in."""
    parts = ((0, texts), (texts, total))
    return [(at, min(at + size, end)) for begin, end in parts for at in range(begin, end, size)]


def _angles(checkpoint: Checkpoint, hidden: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rotary cosines and sines of a text without images, each ``[1,S,D/2]``."""
    positions = torch.arange(hidden.shape[1], device=device).expand(3, 1, -1)
    return mrope_cos_sin(positions, checkpoint.config.text, hidden.dtype)


def _digest(tokens: Tensor) -> str:
    return hashlib.sha256(tokens.to(torch.int64).cpu().numpy().tobytes()).hexdigest()
