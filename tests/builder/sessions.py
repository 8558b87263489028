"""The smallest possible hosts of exported graphs: ONNX Runtime with bound memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnxruntime
import torch
from torch import Tensor

from edgevlm.core.manifest_file import open_manifest
from edgevlm.models import mrope_cos_sin
from edgevlm.models.checkpoint import Checkpoint
from edgevlm.models.onnx_weights import add_weights

_ONNX_TYPES = {torch.float32: 1, torch.int64: 7, torch.float16: 10}


class Session:
    """One graph; inputs and outputs are torch tensors whose memory is used as it is."""

    def __init__(self, engine: Path, kind: str) -> None:
        self.manifest = open_manifest(engine / kind, kind)
        self.checkpoint = Checkpoint(self.manifest.checkpoint_dir(engine / kind))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        model = engine / kind / "model.onnx"
        self._weights = add_weights(options, model, self.checkpoint)
        self._session = onnxruntime.InferenceSession(model, options)

    def run(self, inputs: dict[str, Tensor], outputs: dict[str, Tensor]) -> None:
        assert set(inputs) == {spec.name for spec in self.manifest.inputs}
        binding = self._session.io_binding()
        for tensors, bind in ((inputs, binding.bind_input), (outputs, binding.bind_output)):
            for name, tensor in tensors.items():
                assert tensor.is_contiguous(), name
                kind = _ONNX_TYPES[tensor.dtype]
                bind(name, "cpu", 0, kind, tuple(tensor.shape), tensor.data_ptr())
        self._session.run_with_iobinding(binding)

    def empty_outputs(self, **sizes: int) -> dict[str, Tensor]:
        """Memory for every output, given the size of each symbol of their shapes."""

        def size(dimension: int | str) -> int:
            if isinstance(dimension, int):
                return dimension
            factor, _, symbol = dimension.rpartition("*")
            return int(factor or 1) * sizes[symbol]

        return {
            spec.name: torch.empty(*map(size, spec.shape), dtype=getattr(torch, spec.dtype))
            for spec in self.manifest.outputs
        }


class TextHost:
    """The language model with ``slots`` caches of ``capacity`` rows, all updated in place."""

    def __init__(self, engine: Path, slots: int, capacity: int = 20) -> None:
        self.session = Session(engine, "llm")
        self.config = self.session.checkpoint.config
        self.dtype = getattr(torch, self.session.manifest.dtype)
        text = self.config.text
        shape = (slots, text.num_kv_heads, capacity, text.head_dim)
        self.caches = {
            f"{part}_cache_{layer}": torch.zeros(shape, dtype=self.dtype)
            for layer in range(text.num_layers)
            for part in ("k", "v")
        }

    def step(
        self,
        embeds: Tensor,  # [B,S,H]
        positions: Tensor,  # [3,B,S]
        deepstack: Sequence[Tensor],  # each [B,S,H]
        start: Sequence[int],  # [B] first KV slot written
        last: Sequence[int],  # [B] row of S whose logits are wanted
        first_slot: int = 0,
    ) -> Tensor:
        """Run rows ``first_slot .. first_slot+B`` of the caches; returns ``logits [B,V]``."""
        batch, tokens = embeds.shape[:2]
        cos, sin = mrope_cos_sin(positions, self.config.text, self.dtype)
        write = torch.tensor(start)
        inputs = {
            "inputs_embeds": embeds.to(self.dtype).contiguous(),
            "rope_cos": cos.contiguous(),
            "rope_sin": sin.contiguous(),
            "write_indices": write,
            "kv_lengths": write + tokens,
            "last_token_ids": torch.tensor(last),
        }
        for index, plane in enumerate(deepstack):
            inputs[f"deepstack_{index}"] = plane.to(self.dtype).contiguous()
        views = {n: c[first_slot : first_slot + batch] for n, c in self.caches.items()}
        logits = torch.empty(batch, self.config.text.vocab_size)
        updated = {f"{name}_out": view for name, view in views.items()}
        self.session.run(inputs | views, {"logits": logits} | updated)
        return logits
