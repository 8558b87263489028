"""The expert layers of the torch backend: routing control and the products."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from ...core import PipelineIO
from ...models import Routing, TextConfig
from ...plugins.experts.grouped import grouped_experts
from ...plugins.experts.truncation import TruncationConfig, distinct_experts, first_slots
from ...plugins.macs.config import SETTINGS
from ...plugins.macs.limiting import limited_routing
from ...plugins.macs.report import ENTRIES
from ...plugins.parallel import ExpertParallel
from ...plugins.sere.routing import sere_routing
from ...plugins.sere.slots import merge_duplicates
from .routing import RoutingControl, RoutingTotals, visual_rows

_EXPANDED = "expanded_drop"
WHOLE = slice(None)


class Route(Protocol):
    """What happens to the router's choice for the rows of one step."""

    by_part: bool
    """Whether, with experts on several ranks, each rank does it to its own rows alone."""

    def __call__(
        self, hidden: Tensor, routing: Routing, layer: int, part: slice = WHOLE
    ) -> Routing:
        """The new choice for ``hidden [r,H]``, which are the rows ``part`` of the step."""


@dataclass(frozen=True)
class TokenRoute:
    """Control of a decode step; ``rows [R]`` bool are those that are no padding."""

    host: ExpertHost
    rows: Tensor
    by_part = False

    def __call__(
        self, hidden: Tensor, routing: Routing, layer: int, part: slice = WHOLE
    ) -> Routing:
        return self.host.route_tokens(routing, self.rows[part], layer)


@dataclass(frozen=True)
class PromptRoute:
    """Control of a prompt; ``rows, visual [R]`` bool say which of its rows are no padding, and
    which are visual."""

    host: ExpertHost
    rows: Tensor
    visual: Tensor
    by_part = True

    @classmethod
    def of(cls, host: ExpertHost, io: PipelineIO) -> PromptRoute:
        """All rows of ``io``; where nothing limits prompts they are not looked at."""
        if not host.limits_prompts:
            nothing = torch.zeros(0, dtype=torch.bool, device=io.embeds.device)
            return cls(host, nothing, nothing)
        visual = visual_rows(io)
        return cls(host, torch.ones_like(visual), visual)

    def __call__(
        self, hidden: Tensor, routing: Routing, layer: int, part: slice = WHOLE
    ) -> Routing:
        return self.host.route_prompt(hidden, routing, self.rows[part], self.visual[part], layer)


class ExpertHost:
    """Routes rows and computes their experts, counting what control changes.

    All that differs from step to step is in tensors that stay where they are, so a CUDA graph
    serves any strength; :attr:`variant` says which graphs are the same.

    Args:
        parallel: where experts are split over ranks. Weights are then this rank's, prompts are
            limited by each rank for its own rows, and steps cannot be captured.
    """

    def __init__(
        self, config: TextConfig, device: torch.device, parallel: ExpertParallel | None = None
    ) -> None:
        self._parallel = parallel
        self._places = {layer: place for place, layer in enumerate(config.moe_layers)}
        self._experts = config.moe.num_experts if config.moe else 0
        self._control = RoutingControl()
        self._steps = self._prompts = 0
        layers, experts = len(self._places), self._experts
        zeros = partial(torch.zeros, device=device)
        self._similarity = zeros(layers, experts, experts)
        self._protected = zeros(layers, experts, dtype=torch.bool)
        self._top_k = zeros(1, dtype=torch.int64)
        self._threshold = zeros(1)
        self._active = zeros(layers, 2, dtype=torch.int64)
        self._groups = zeros(layers, experts)
        self._settings = zeros(len(SETTINGS))
        self._reports = zeros(layers, len(ENTRIES))

    @property
    def variant(self) -> Hashable:
        """What decides which operations a step consists of, as far as experts go."""
        sere, macs = self._control.sere, self._control.macs
        # What has settings in a tensor serves them all; the other method is made of its numbers.
        expanded = macs is not None and macs.config.method == _EXPANDED
        limits = macs and (macs.config if expanded else macs.similarity is not None)
        return sere and sere.config.merge_duplicates, limits, self._control.truncation

    @property
    def limits_prompts(self) -> bool:
        """Whether what a row gets depends on the prompt's other rows."""
        return self._control.macs is not None

    def control(self, control: RoutingControl) -> None:
        """See :meth:`~edgevlm.runtime.engines.routing.ControlledExperts.control_experts`."""
        control.check(len(self._places), self._experts)
        if control.sere is not None:
            self._similarity.copy_(control.sere.similarity)
            self._protected.copy_(control.sere.protected)
        if control.macs is not None and self._parallel is not None:
            here = dataclasses.replace(
                control.macs.config,
                devices=self._parallel.placement.ranks,
                device=self._parallel.rank,
            )
            macs = dataclasses.replace(control.macs, config=here)
            control = dataclasses.replace(control, macs=macs)
        if control.macs is not None:
            self._groups.copy_(control.macs.groups)
            if control.macs.similarity is not None:
                self._similarity.copy_(control.macs.similarity)
            self._settings.copy_(control.macs.config.settings())
        self._control = control

    def totals(self) -> RoutingTotals:
        """What control did so far; waits for the device."""
        return RoutingTotals.of(self._steps, self._active, self._prompts, self._reports)

    def begin_decode(self, batch: int, generated: int) -> None:
        """Set the strength of a step; called once before it."""
        self._steps += self._control.sere is not None or self._control.truncation is not None
        if self._control.sere is not None:
            top_k, threshold = self._control.sere.config.at(batch, generated)
            self._top_k.fill_(top_k)
            self._threshold.fill_(threshold)

    def begin_prompt(self) -> None:
        """Called once before a prompt."""
        self._prompts += self.limits_prompts

    def route_tokens(self, routing: Routing, rows: Tensor, layer: int) -> Routing:
        """Control of a decode step; ``rows [R]`` bool are those that are no padding."""
        sere, place = self._control.sere, self._places[layer]
        if self._control.truncation is not None:
            before = distinct_experts(routing.ids, rows, self._experts)
            routing = self._truncated(routing, self._control.truncation)
            after = distinct_experts(routing.ids, rows, self._experts)
            self._active[place] += torch.stack((before, after))
        if sere is None:
            return routing
        ids, _ = sere_routing(
            routing.ids,
            self._similarity[place],
            self._protected[place],
            rows,
            self._top_k,
            self._threshold,
            totals=self._active[place],
        )
        weights = routing.weights
        if sere.config.merge_duplicates:
            ids, weights = merge_duplicates(ids, weights, self._experts)
        return dataclasses.replace(routing, ids=ids, weights=weights)

    def route_prompt(
        self, hidden: Tensor, routing: Routing, rows: Tensor, visual: Tensor, layer: int
    ) -> Routing:
        """Control of a prompt's rows ``hidden [R,H]``; ``rows, visual [R]`` bool say which of them
        are no padding, and which are visual."""
        macs, truncation = self._control.macs, self._control.truncation
        if truncation is not None and truncation.prompts:
            routing = self._truncated(routing, truncation)
        if macs is None:
            return routing
        place = self._places[layer]
        similarity = self._similarity[place] if macs.similarity is not None else None
        groups = self._groups[place]
        routing, report = limited_routing(
            macs.config, hidden, routing, rows, visual, groups, similarity, self._settings
        )
        self._reports[place] += report
        return routing

    def _truncated(self, routing: Routing, config: TruncationConfig) -> Routing:
        ids, weights = first_slots(routing.ids, routing.weights, config.top_k, self._experts)
        return dataclasses.replace(routing, ids=ids, weights=weights)

    def local(self, weights: Tensor) -> Tensor:
        """This rank's part of expert weights ``[N,...]``, a view; all of them on a single rank."""
        return weights if self._parallel is None else self._parallel.local(weights)

    def mixture(
        self,
        hidden: Tensor,
        routing: Routing,
        gate_up: Tensor,
        down: Tensor,
        layer: int,
        route: Route,
        add_to: Tensor | None = None,
    ) -> Tensor:
        """The weighted sum ``[R,H]`` of each row's experts, after control.

        Args:
            gate_up, down: see :meth:`local`.
            add_to: ``[R,H]``, what the sum is added to, in place; it is then returned.
        """
        if self._parallel is None:
            routing = route(hidden, routing, layer)
            choice = routing.ids, routing.weights
            active = self._experts // 2 if self._control.sere is not None else None
            return grouped_experts(hidden, *choice, gate_up, down, active, add_to)
        if not route.by_part:
            routing = route(hidden, routing, layer)

        def limit(rows: Tensor, own: Routing, part: slice) -> Routing:
            return route(rows, own, layer, part)

        by_part = limit if route.by_part else None
        result = self._parallel.layer(hidden, routing, gate_up, down, by_part)
        return result if add_to is None else add_to.add_(result)
