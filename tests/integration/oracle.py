"""``transformers`` as the oracle for whole requests to the bundled checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForImageTextToText

from edgevlm.core import PipelineIO
from edgevlm.runtime.processor import Processor
from edgevlm.runtime.prompt import PreparedPrompt
from edgevlm.runtime.request import ChatRequest

from .conftest import CHECKPOINT


class Oracle:
    """A bundled checkpoint in ``transformers``, fp32."""

    def __init__(self, checkpoint: Path = CHECKPOINT) -> None:
        self.processor = Processor.from_directory(checkpoint)
        self.model: Any = AutoModelForImageTextToText.from_pretrained(
            checkpoint, dtype=torch.float32
        ).eval()

    def inputs(self, prompt: PreparedPrompt) -> dict[str, Tensor]:
        """What ``transformers`` calls the parts of a prompt."""
        ids = prompt.token_ids[None]
        kinds = (ids == self.model.config.image_token_id).int()
        inputs = {"input_ids": ids, "mm_token_type_ids": kinds}
        if prompt.media:
            inputs["pixel_values"] = torch.cat([item.patches for item in prompt.media])
            inputs["image_grid_thw"] = torch.tensor([[1, *item.grid] for item in prompt.media])
        return inputs

    @torch.inference_mode()
    def logits(self, request: ChatRequest) -> Tensor:
        """Logits ``[V]`` of the first generated token."""
        prompt = self.processor.prepare(request)
        logits: Tensor = self.model(**self.inputs(prompt)).logits[0, -1]
        return logits

    @torch.inference_mode()
    def answer(self, request: ChatRequest) -> str:
        """The greedy answer."""
        inputs = self.inputs(self.processor.prepare(request))
        generated = self.model.generate(
            **inputs, max_new_tokens=request.sampling.max_tokens, do_sample=False
        )
        ids = generated[0, inputs["input_ids"].shape[1] :].tolist()
        return self.processor.decode([i for i in ids if i not in self.processor.eos_ids])

    @torch.inference_mode()
    def logits_of_rows(self, io: PipelineIO) -> Tensor:
        """Logits ``[V]`` after the last row of an assembled (perhaps pruned) prompt.

        ``transformers`` is given the same embeddings, positions and DeepStack rows, and a causal
        mask over the rows that are left.
        """
        visual = torch.zeros(1, len(io), dtype=torch.bool)
        for span in io.spans:
            visual[0, span.start : span.end] = True
        language = self.model.model.language_model
        hidden = language(
            inputs_embeds=io.embeds[None],
            position_ids=io.positions[:, None],
            visual_pos_masks=visual,
            deepstack_visual_embeds=[plane[visual[0]] for plane in io.deepstack],
            use_cache=False,
        ).last_hidden_state
        logits: Tensor = self.model.lm_head(hidden[0, -1])
        return logits
