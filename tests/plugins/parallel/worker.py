"""What each rank of a test does; started by ``torchrun``."""

from __future__ import annotations

import sys

import torch

from edgevlm.models import Routing, top_experts
from edgevlm.plugins.experts import moe_experts
from edgevlm.plugins.macs import MacsConfig, MacsReport, limited_routing
from edgevlm.plugins.parallel import ExpertParallel, joined

HIDDEN, WIDTH, EXPERTS, TOP_K = 24, 10, 10, 3


def layer_inputs(rows: int) -> tuple[torch.Tensor, Routing, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    hidden = torch.randn(rows, HIDDEN, generator=generator)
    routing = top_experts(torch.randn(rows, EXPERTS, generator=generator) * 2, TOP_K)
    gate_up = torch.randn(EXPERTS, HIDDEN, 2 * WIDTH, generator=generator)
    return hidden, routing, gate_up, torch.randn(EXPERTS, WIDTH, HIDDEN, generator=generator)


def unlimited(parallel: ExpertParallel, rows: int) -> bool:
    """Bit for bit what one rank computes."""
    hidden, routing, gate_up, down = layer_inputs(rows)
    expected = moe_experts(hidden, routing.ids, routing.weights, gate_up, down)
    found = parallel.layer(hidden, routing, parallel.local(gate_up), parallel.local(down))
    return torch.equal(found, expected)


def limited(parallel: ExpertParallel, method: str, rows: int) -> bool:
    """What one rank computes of the parts, each limited on its own."""
    hidden, routing, gate_up, down = layer_inputs(rows)
    visual = torch.arange(rows) % 3 > 0
    reports = []

    def limit(part: torch.Tensor, own: Routing, place: slice) -> Routing:
        config = MacsConfig(
            method=method,
            capacity_factor=0.5,
            devices=parallel.placement.ranks,
            device=parallel.rank,
        )
        everyone = torch.ones(len(part), dtype=torch.bool)
        result, report = limited_routing(
            config, part, own, everyone, visual[place], torch.zeros(EXPERTS)
        )
        reports.append(MacsReport.read(report))
        expected.append(moe_experts(part, result.ids, result.weights, gate_up, down))
        return result

    expected: list[torch.Tensor] = []
    found = parallel.layer(hidden, routing, parallel.local(gate_up), parallel.local(down), limit)
    own = found[parallel.placement.rows(parallel.rank, rows)]
    changed = reports[0].dropped_visual + reports[0].dropped_text + reports[0].rerouted > 0
    return changed and torch.allclose(own, expected[0], atol=1e-5)


def main() -> int:
    with joined("cpu") as ranks:
        parallel = ExpertParallel(EXPERTS)
        results = {f"{rows} rows": unlimited(parallel, rows) for rows in (1, 3, 50, 200)}
        results |= {
            method: limited(parallel, method, 200)
            for method in ("macs", "token_drop", "expanded_drop")
        }
        wrong = [name for name, right in results.items() if not right]
        if wrong:
            print(f"rank {ranks.rank} of {ranks.size}: wrong: {wrong}", file=sys.stderr)
        return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
