"""How close an engine is to the reference, and how close it has to be."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

# Half precision costs about 1e-4 of cosine in a dense model; a wrong mask, a wrong weight or an
# overflow costs orders of magnitude more.
MIN_COSINE = 0.99
MIN_AGREEMENT = 0.9
FLOAT16_MAX = 65504.0


@dataclass
class Figures:
    """Worst cosine and largest error of each comparison, and how often the best token agrees.

    ``reference_peak`` is the largest activation of the reference: float16 ends at 65504.
    """

    dtype: str
    cosine: dict[str, float] = field(default_factory=dict)
    error: dict[str, float] = field(default_factory=dict)
    agreed: int = 0
    steps: int = 0
    reference_peak: float = 0.0
    finite: bool = True

    def count_agreement(self, found: Tensor, expected: Tensor) -> None:
        """Rows ``[n,V]`` of one decode step."""
        same = found.float().cpu().argmax(-1) == expected.float().cpu().argmax(-1)
        self.agreed += int(same.sum())
        self.steps += same.numel()

    @property
    def overflows(self) -> bool:
        return self.dtype == "float16" and self.reference_peak > FLOAT16_MAX

    def problems(self) -> list[str]:
        """What is out of bounds, one line each; nothing if the engine may be used."""
        if self.overflows or not self.finite:
            seen = "overflow" if self.finite else "NaN or infinite values"
            if self.dtype != "float16":
                return [f"{seen} in {self.dtype}: is the checkpoint damaged?"]
            peak = f"{self.reference_peak:.3g}"
            return [
                f"{seen}: the checkpoint's activations reach {peak} and float16 ends at 65504;"
                " build it with --dtype bfloat16"
            ]
        found = [
            f"{name}: cosine {value:.4f} is below {MIN_COSINE}"
            for name, value in self.cosine.items()
            if value < MIN_COSINE
        ]
        if self.steps and self.agreed < MIN_AGREEMENT * self.steps:
            found.append(
                f"greedy tokens agree in {self.agreed} of {self.steps} steps, fewer than"
                f" {MIN_AGREEMENT:.0%}"
            )
        return found

    def as_dict(self) -> dict[str, float]:
        """The figures as a manifest holds them; ``passed`` is 0 or 1."""
        figures = {f"{name}_cosine": value for name, value in self.cosine.items()}
        figures |= {f"{name}_max_error": value for name, value in self.error.items()}
        if self.steps:
            figures["greedy_agreement"] = self.agreed / self.steps
        figures["reference_peak"] = self.reference_peak
        figures["passed"] = float(not self.problems())
        return {name: round(value, 6) for name, value in figures.items()}


def compare(figures: Figures, name: str, found: Tensor, expected: Tensor) -> None:
    """Add one comparison; rows are the last axis, and the worst row counts."""
    a, b = found.float().cpu(), expected.float().cpu()
    if not bool(torch.isfinite(a).all()):
        figures.finite = False
        a = torch.nan_to_num(a, nan=0.0, posinf=FLOAT16_MAX, neginf=-FLOAT16_MAX)
    cosine = float(F.cosine_similarity(a, b, dim=-1).min())
    error = float((a - b).abs().max())
    figures.cosine[name] = min(figures.cosine.get(name, 1.0), cosine)
    figures.error[name] = max(figures.error.get(name, 0.0), error)
