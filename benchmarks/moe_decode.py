"""A decode step of a mixture of experts, as routed and re-routed by SERE: what it saves.

Run ``python -m edgevlm.benchmarks.moe_decode --output moe-decode.json``. The language model has the
shape of Qwen3-VL-30B-A3B's and random weights. A random router spreads its tokens over all experts,
so ids and weights come from a synthetic one, as uneven as a real one's is reported to be: 8 active
experts at batch 1, 93 at batch 128. The similarity of experts is synthetic too: what is reported
of real layers goes from nearly all pairs alike (above 0.9) to mostly unlike (below 0.4).

``step_ms`` is the whole step in one CUDA graph, all layers and the output head, a median;
``active`` and ``after`` count experts per layer; ``gb_s`` is the experts' weights that are read
over the time of the step; ``saved`` is of the time without re-routing at the same batch.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core import EngineLimits, exit_status
from ..core.device import device_name
from ..models import MoeConfig, Routing, TextConfig, mrope_cos_sin
from ..plugins.sere.config import SereConfig
from ..runtime.engines.routing import RoutingControl, SereControl
from ..runtime.engines.torch_experts import WHOLE, TokenRoute
from ..runtime.engines.torch_fused import FusedNetwork
from ..runtime.engines.torch_steps import Rows
from .device import open_device
from .llm_shapes import MOE_30B, RandomState
from .report import Row, environment, table, write_json
from .synthetic_router import SyntheticRouter
from .timing import Timer


@dataclass(frozen=True)
class Plan:
    """The model and what is measured."""

    config: TextConfig
    active: float  # experts, at the largest batch
    sizes: tuple[tuple[int, int], ...]  # batch, tokens in each slot
    top_k: int  # of SERE
    settings: tuple[tuple[float, int], ...]  # SERE's threshold, protected experts per layer

    @property
    def most(self) -> tuple[int, int]:
        """The largest batch, and the most tokens in a slot."""
        batches, contexts = zip(*self.sizes, strict=True)
        return max(batches), max(contexts)


_SIZES = ((1, 1024), (8, 1024), (32, 1024), (64, 1024), (128, 1024), (128, 512), (128, 256))
FULL = Plan(MOE_30B, 93.0, _SIZES, 2, ((0.5, 0), (0.5, 16)))
_TOY = TextConfig(100, 64, 96, 2, 4, 2, 16, 1e-6, 1e4, (4, 2, 2), 4096, True, MoeConfig(12, 4, 16))
TOY = Plan(_TOY, 9.0, ((1, 12), (6, 12)), 2, ((0.5, 1),))
_SPREAD = 0.15


def similarity_tables(layers: int, experts: int, seed: int = 0) -> Tensor:
    """Similarities ``[L,N,N]`` fp32 in 0..1: symmetric, normal around a mean of 0.9 in the second
    layer that falls to 0.4 in the seventh and stays, with a deviation of 0.15."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(layers, experts, experts, generator=generator) * _SPREAD
    noise = (noise + noise.transpose(1, 2)) / 2**0.5
    fall = (torch.arange(layers).float() - 1).clamp(0, 5) / 5
    tables = (0.9 - 0.5 * fall)[:, None, None] + noise
    return tables.clamp(0, 1).diagonal_scatter(torch.ones(layers, experts), dim1=1, dim2=2)


@dataclass(frozen=True)
class SyntheticRoute:
    """Replaces the router's choice by one made beforehand, ``(ids, weights)`` of each layer."""

    control: TokenRoute
    choices: Sequence[tuple[Tensor, Tensor]]
    by_part = False

    def __call__(
        self, hidden: Tensor, routing: Routing, layer: int, part: slice = WHOLE
    ) -> Routing:
        ids, weights = self.choices[layer]
        chosen = dataclasses.replace(routing, ids=ids, weights=weights)
        return self.control(hidden, chosen, layer, part)


class Decoder:
    """The network at one batch size, its experts chosen by the synthetic router."""

    def __init__(self, network: FusedNetwork, plan: Plan, router: SyntheticRouter) -> None:
        self.network, self.plan, self.router = network, plan, router
        self.device = network.weights.lm_head.device
        moe, layers = plan.config.moe, plan.config.num_layers
        assert moe is not None
        self._similarity = similarity_tables(layers, moe.num_experts)
        # Those with an expert that is much like them come last.
        alike = self._similarity - 2 * torch.eye(moe.num_experts)
        self._replaceable = alike.amax(dim=2).argsort(dim=1)  # [L,N]

    def step(
        self, batch: int, context: int, setting: tuple[float, int] | None
    ) -> Callable[[], Tensor]:
        """A decode step behind ``context`` tokens; no ``setting`` leaves routing as it is.

        Only the step that was made last is right, as it sets the control of all.
        """
        plan = self.plan
        experts, dtype = self.network.experts, self.network.weights.lm_head.dtype
        sere = None
        if setting is not None:
            threshold, count = setting
            flags = torch.zeros_like(self._replaceable, dtype=torch.bool)
            protected = flags.scatter(1, self._replaceable[:, :count], True)
            config = SereConfig(plan.top_k, threshold, count)
            sere = SereControl(config, self._similarity, protected)
        experts.control(RoutingControl(sere))
        experts.begin_decode(batch, 0)
        choices = [
            self.router.route(layer, batch, 1, self.device, dtype)
            for layer in range(plan.config.num_layers)
        ]
        everyone = torch.ones(batch, dtype=torch.bool, device=self.device)
        route = SyntheticRoute(TokenRoute(experts, everyone), choices)
        generator = torch.Generator(self.device).manual_seed(batch)
        shape = (batch, plan.config.hidden_size)
        embeds = torch.empty(shape, dtype=dtype, device=self.device).normal_(generator=generator)
        positions = torch.full((3, batch), context, device=self.device)
        cos, sin = mrope_cos_sin(positions, plan.config, dtype)
        slots = torch.arange(batch, device=self.device)
        rows = Rows(cos, sin, slots, torch.full_like(slots, context))
        return lambda: self.network.logits(self.network.tokens(embeds.clone(), rows, route))

    def active(self, step: Callable[[], Tensor]) -> list[float]:
        """Experts per layer before and after, of one step with re-routing."""
        before = self.network.experts.totals().active
        step()
        done = self.network.experts.totals().active - before
        return [float(count) for count in done.float().mean(0)]


def measure(decoder: Decoder, timer: Timer) -> Iterator[dict[str, Any]]:
    """One row per size and setting."""
    plan = decoder.plan
    moe = plan.config.moe
    assert moe is not None
    element = decoder.network.weights.lm_head.itemsize
    expert_bytes = 3 * plan.config.hidden_size * moe.intermediate_size * element
    for batch, context in plan.sizes:
        plain = 0.0
        active = decoder.active(decoder.step(batch, context, plan.settings[0]))[0]
        for setting in (None, *plan.settings):
            step = decoder.step(batch, context, setting)
            after = active if setting is None else decoder.active(step)[1]
            time = timer.graph([step]) or timer.eager([step])
            plain = plain or time
            read = after * plan.config.num_layers * expert_bytes
            routing = f"top-{moe.top_k}"
            if setting is not None:
                routing = f"SERE K={plan.top_k} rho={setting[0]:g}, {setting[1]} protected"
            yield {
                "batch": batch,
                "context": context,
                "routing": routing,
                "active": active,
                "after": after,
                "step_ms": time,
                "gb_s": read / time / 1e6,
                "saved": 1 - time / plain,
            }


def _network(plan: Plan, dtype: torch.dtype, device: torch.device) -> FusedNetwork:
    batch, context = plan.most
    limits = EngineLimits(context, context + 8, batch)
    state = RandomState(plan.config, dtype, device)
    return FusedNetwork(plan.config, limits, state, dtype, device, limits.max_kv_len)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default=device_name(None))
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--layers", type=int, help="fewer decoder layers than the model has")
    parser.add_argument("--toy", action="store_true", help="shapes small enough for a CPU")
    parser.add_argument("--output", type=Path, required=True, help="JSON file")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print one table, write the file."""
    arguments = _parse(argv)
    return exit_status(lambda: _run(arguments))


def _run(arguments: argparse.Namespace) -> None:
    device = open_device(arguments.device)
    plan = TOY if arguments.toy else FULL
    if arguments.layers:
        plan = replace(plan, config=replace(plan.config, num_layers=arguments.layers))
    moe, layers = plan.config.moe, plan.config.num_layers
    assert moe is not None
    router = SyntheticRouter.calibrated(
        layers, moe.num_experts, moe.top_k, plan.most[0], plan.active
    )
    rows: list[Row] = []
    with torch.inference_mode():
        dtype = torch.float32 if arguments.toy else torch.bfloat16
        decoder = Decoder(_network(plan, dtype, device), plan, router)
        for row in measure(decoder, Timer(device, arguments.repeats)):
            print(row, file=sys.stderr, flush=True)
            rows.append(row)
        copy = Timer(device).copy_bandwidth() if device.type == "cuda" else None
    content = {"environment": environment(__spec__.name, device), "copy_gb_s": copy}
    write_json(arguments.output, content | {"rows": rows})
    print(table(rows))


if __name__ == "__main__":
    sys.exit(main())
