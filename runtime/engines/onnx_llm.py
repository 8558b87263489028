"""The ONNX Runtime backend's language model: the embedded default, on any CPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...core import EngineLimits, PipelineIO
from ...core.manifest import TensorSpec
from ...models import TextConfig, mrope_cos_sin
from .base import DecodeBatch
from .kv_cache import GrowingKVCache
from .onnx_session import CPU, OnnxSession
from .routing import RoutingControl, RoutingTotals
from .routing_inputs import RoutingInputs


class OnnxLLMEngine:
    """Language model through ONNX Runtime; see :class:`~edgevlm.runtime.engines.LLMEngine` and
    :class:`~edgevlm.runtime.engines.routing.ControlledExperts`.

    The KV caches are bound as both input and output, so a step writes the new rows and copies
    nothing.

    Args:
        inputs: the graph's, which say what control of experts it was built with.
    """

    device = CPU

    def __init__(
        self,
        session: OnnxSession,
        config: TextConfig,
        limits: EngineLimits,
        embedding_table: Tensor,
        dtype: torch.dtype,
        num_deepstack: int,
        inputs: Sequence[TensorSpec] = (),
    ) -> None:
        self.limits, self.dtype, self.embedding_table = limits, dtype, embedding_table
        self._session, self._config, self._planes = session, config, num_deepstack
        self._cache = GrowingKVCache(config, limits, dtype)
        self._routing = RoutingInputs(inputs, config, CPU)

    @torch.inference_mode()
    def prefill(self, slot: int, io: PipelineIO) -> Tensor:
        self._cache.admit(slot, len(io))
        logits = self._run(
            self._cache.slots(slot, slot + 1),
            io.embeds[None],
            io.positions[:, None],
            io.deepstack[:, None],
            torch.zeros(1, dtype=torch.int64),
            self._routing.prompt(io),
        )[0]
        self._routing.count_prompt()
        return logits

    @torch.inference_mode()
    def decode(self, batch: DecodeBatch) -> Tensor:
        self._cache.extend(batch.lengths)
        embeds = batch.embeds[:, None]  # [n,1,H]
        logits = self._run(
            self._cache.slots(0, len(batch)),
            embeds,
            batch.positions[None, :, None].expand(3, -1, -1),
            embeds.new_zeros((self._planes, *embeds.shape)),
            torch.tensor(batch.lengths),
            self._routing.decode(len(batch), batch.generated),
        )
        self._routing.count_decode()
        return logits

    def control_experts(self, control: RoutingControl) -> None:
        self._routing.control(control)

    def routing_totals(self) -> RoutingTotals:
        return self._routing.totals()

    @torch.inference_mode()
    def move_slot(self, source: int, target: int, length: int) -> None:
        self._cache.move(source, target, length)

    def _run(
        self,
        caches: dict[str, Tensor],  # each [B,Hkv,C,D]
        embeds: Tensor,  # [B,S,H]
        positions: Tensor,  # [3,B,S]
        deepstack: Tensor,  # [P,B,S,H]
        write_indices: Tensor,  # [B] int64
        rows: dict[str, Tensor],  # each [B,S] bool
    ) -> Tensor:
        batch, length, _ = embeds.shape
        cos, sin = mrope_cos_sin(positions, self._config, self.dtype)
        logits = torch.empty(batch, self._config.vocab_size)  # [B,V] fp32
        inputs = {
            "inputs_embeds": embeds.contiguous(),
            "rope_cos": cos.contiguous(),
            "rope_sin": sin.contiguous(),
            "write_indices": write_indices,
            "kv_lengths": write_indices + length,
            "last_token_ids": torch.full((batch,), length - 1),
            **{f"deepstack_{plane}": rows.contiguous() for plane, rows in enumerate(deepstack)},
            **caches,
            **rows,
            **self._routing.fixed,
        }
        outputs = {
            "logits": logits,
            **{f"{name}_out": cache for name, cache in caches.items()},
            **self._routing.reports,
        }
        self._session.run(inputs, outputs)
        return logits
