"""The language model as a TensorRT engine."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...core import EngineLimits, PipelineIO, RequestError
from ...core.manifest import TensorSpec
from ...models import TextConfig, mrope_cos_sin
from .base import DecodeBatch
from .decode_graphs import DecodeGraphs
from .routing import RoutingControl, RoutingTotals
from .routing_inputs import RoutingInputs
from .tensorrt_device import Device
from .tensorrt_program import TensorRTProgram, out_of_memory

PREFILL, DECODE = 0, 1  # profiles, in the order of the engine's contract


class TensorRTLLMEngine:
    """Language model through TensorRT; see :class:`~edgevlm.runtime.engines.LLMEngine` and
    :class:`~edgevlm.runtime.engines.routing.ControlledExperts`.

    Prefill binds its prompt's tensors as they are and one slot of the caches. Decode works on
    buffers that never move, so that a step is one graph: fill the buffers, replay. Nothing here
    waits for the device; the sampler does, once a step, when it reads the tokens.

    Args:
        inputs: the engine's, which say what control of experts it was built with.

    Raises:
        EngineError: memory runs out, or the library refuses the plan.
    """

    def __init__(
        self,
        program: TensorRTProgram,
        device: Device,
        config: TextConfig,
        limits: EngineLimits,
        embedding_table: Tensor,
        dtype: torch.dtype,
        num_deepstack: int,
        inputs: Sequence[TensorSpec] = (),
    ) -> None:
        self.limits, self.dtype = limits, dtype
        self.device = device.torch_device
        self._program, self._gpu, self._config = program, device, config
        self.embedding_table = self._place(embedding_table)
        self._caches = self._make_caches()
        self._routing = RoutingInputs(inputs, config, self.device)
        self._decode_inputs = self._make_decode_inputs(num_deepstack)
        # What a full step is fed has the shapes of the buffers that every step is fed.
        self._decode_inputs |= self._routing.decode(limits.max_batch, 0)
        self._decode_logits = torch.empty(
            limits.max_batch, config.vocab_size, dtype=torch.float32, device=self.device
        )  # [max_batch,V]
        self._prefill_context = program.context(PREFILL, fixed_shapes=False)
        self._decode_context = program.context(DECODE, fixed_shapes=True)
        self._graphs = DecodeGraphs(device)
        self._bind_decode(limits.max_batch)

    @torch.inference_mode()
    def prefill(self, slot: int, io: PipelineIO) -> Tensor:
        return self.prefill_chunk(slot, io, 0)

    @torch.inference_mode()
    def prefill_chunk(self, slot: int, io: PipelineIO, start: int) -> Tensor:
        """Run one piece of a prompt, whose first ``start`` tokens are in ``slot`` already.

        Returns:
            fp32 logits ``[V]`` of its last token.

        Raises:
            RequestError: the engine was built for shorter prompts.
        """
        length, limits = len(io), self.limits
        if length > limits.max_input_len or start + length > limits.max_kv_len:
            raise RequestError(
                f"the prompt has {start + length} tokens, {length} of them new; the engine's"
                f" profile takes {limits.max_input_len} new tokens and its cache"
                f" {limits.max_kv_len}; use fewer or smaller images, a higher reduction_ratio, or"
                " rebuild with a larger --max-input-len"
            )
        caches = {name: cache[slot : slot + 1] for name, cache in self._caches.items()}
        cos, sin = mrope_cos_sin(io.positions[:, None], self._config, self.dtype)
        logits = torch.empty(
            1, self._config.vocab_size, dtype=torch.float32, device=self.device
        )  # [1,V]
        counts = self._counts([start], length)
        inputs = {
            "inputs_embeds": io.embeds[None].contiguous(),
            "rope_cos": cos.contiguous(),
            "rope_sin": sin.contiguous(),
            **dict(zip(_COUNTS, counts, strict=True)),
            **{f"deepstack_{i}": plane[None].contiguous() for i, plane in enumerate(io.deepstack)},
            **caches,
            **self._routing.prompt(io),
            **self._routing.fixed,
        }
        outputs = {"logits": logits, **_updated(caches), **self._routing.reports}
        with self._gpu.ordered():
            self._prefill_context.bind(inputs, outputs)
            self._prefill_context.enqueue()
        self._routing.count_prompt()
        return logits[0]

    @torch.inference_mode()
    def decode(self, batch: DecodeBatch) -> Tensor:
        rows = len(batch)
        buffers = self._decode_inputs
        cos, sin = mrope_cos_sin(
            batch.positions[None, :, None].expand(3, -1, -1), self._config, self.dtype
        )
        buffers["inputs_embeds"][:rows].copy_(batch.embeds[:, None])
        buffers["rope_cos"][:rows].copy_(cos)
        buffers["rope_sin"][:rows].copy_(sin)
        for name, values in zip(_COUNTS, self._counts(batch.lengths, 1), strict=True):
            buffers[name][:rows].copy_(values)
        for name, flags in self._routing.decode(rows, batch.generated).items():
            buffers[name][:rows].copy_(flags)
        with self._gpu.ordered():
            self._graphs.run(
                rows,
                self._decode_addresses,
                lambda: self._bind_decode(rows),
                self._decode_context.enqueue,
            )
        self._routing.count_decode()
        return self._decode_logits[:rows].clone()

    def control_experts(self, control: RoutingControl) -> None:
        self._routing.control(control)

    def routing_totals(self) -> RoutingTotals:
        return self._routing.totals()

    @torch.inference_mode()
    def move_slot(self, source: int, target: int, length: int) -> None:
        for cache in self._caches.values():
            cache[target, :, :length] = cache[source, :, :length]

    def _bind_decode(self, rows: int) -> None:
        inputs = {n: t[:rows] for n, t in (self._decode_inputs | self._caches).items()}
        caches = {name: inputs[name] for name in self._caches}
        outputs = {"logits": self._decode_logits[:rows], **_updated(caches)}
        self._decode_context.bind(inputs | self._routing.fixed, outputs | self._routing.reports)
        self._decode_addresses = self._decode_context.addresses

    def _counts(self, lengths: list[int] | tuple[int, ...], new: int) -> Tensor:
        """``[3,B]``: first slot written, valid slots afterwards, row whose logits are wanted."""
        rows = [list(lengths), [n + new for n in lengths], [new - 1] * len(lengths)]
        return torch.tensor(rows).to(self.device, non_blocking=True)

    def _place(self, table: Tensor) -> Tensor:
        try:
            return table.to(self.device, self.dtype)
        except torch.OutOfMemoryError:
            raise out_of_memory("token embeddings", table.numel() * 2) from None

    def _make_caches(self) -> dict[str, Tensor]:
        """Zeros: a slot that is not attended is still multiplied, by zero."""
        config, limits = self._config, self.limits
        shape = (limits.max_batch, config.num_kv_heads, limits.max_kv_len, config.head_dim)
        try:
            return {
                f"{part}_cache_{layer}": torch.zeros(shape, dtype=self.dtype, device=self.device)
                for layer in range(config.num_layers)
                for part in ("k", "v")
            }
        except torch.OutOfMemoryError:
            each = shape[0] * shape[1] * shape[2] * shape[3] * self.dtype.itemsize
            raise out_of_memory("KV caches", 2 * config.num_layers * each) from None

    def _make_decode_inputs(self, planes: int) -> dict[str, Tensor]:
        config, rows = self._config, self.limits.max_batch
        widths = {
            "inputs_embeds": config.hidden_size,
            "rope_cos": config.head_dim // 2,
            "rope_sin": config.head_dim // 2,
            **{f"deepstack_{plane}": config.hidden_size for plane in range(planes)},
        }
        buffers = {
            name: torch.zeros(rows, 1, width, dtype=self.dtype, device=self.device)
            for name, width in widths.items()
        }
        counts = {
            name: torch.zeros(rows, dtype=torch.int64, device=self.device) for name in _COUNTS
        }
        return buffers | counts


_COUNTS = ("write_indices", "kv_lengths", "last_token_ids")


def _updated(caches: dict[str, Tensor]) -> dict[str, Tensor]:
    """Caches as outputs: the same memory under the output's name."""
    return {f"{name}_out": cache for name, cache in caches.items()}
