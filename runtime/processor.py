"""Everything between a request and the networks: media, template, tokens and positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ..core import CheckpointError
from ..models import ModelConfig, load_config
from .chat_template import ChatTemplate
from .placeholders import expand_placeholders, join_parts, place_media, refuse_control_tokens
from .positions import mrope_positions
from .preprocessor_config import load_image_config, load_video_config
from .prompt import MediaMarkers, PreparedPrompt
from .request import ChatRequest
from .tokenizer import Tokenizer
from .visual_items import ShownTokens, VisualLimits, VisualPreparer, all_tokens


@dataclass(frozen=True)
class Processor:
    """Prepares requests for one checkpoint. Holds no changing state, so threads may share it."""

    config: ModelConfig
    tokenizer: Tokenizer
    template: ChatTemplate
    visuals: VisualPreparer
    markers: MediaMarkers

    @classmethod
    def from_directory(cls, directory: Path, limits: VisualLimits | None = None) -> Processor:
        """Read everything from one directory, such as a checkpoint.

        Raises:
            CheckpointError: a file is missing or says what is not supported.
        """
        return cls._load(directory, directory, limits or VisualLimits())

    @classmethod
    def from_directories(
        cls, llm: Path, visual: Path | None, max_image_tokens: int | None = None
    ) -> Processor:
        """Read from engine directories.

        Args:
            llm: has ``config.json``, tokenizer, chat template and ``generation_config.json``.
            visual: has the preprocessor files; ``None`` for text alone.
            max_image_tokens: the visual engine's limit per image or frame group.

        Raises:
            CheckpointError: a file is missing or says what is not supported.
        """
        return cls._load(llm, visual, VisualLimits(max_tokens=max_image_tokens))

    @classmethod
    def _load(cls, llm: Path, visual: Path | None, limits: VisualLimits) -> Processor:
        config = load_config(llm)
        tokenizer = Tokenizer.from_directory(llm)
        image = load_image_config(visual, config.vision) if visual else None
        video = load_video_config(visual, config.vision) if visual else None
        if visual and image is None:
            raise CheckpointError(f"{visual}: preprocessor_config.json is missing; copy it there")
        return cls(
            config=config,
            tokenizer=tokenizer,
            template=ChatTemplate.from_directory(llm, tokenizer.special_tokens),
            visuals=VisualPreparer(config.vision, image, video, limits),
            markers=MediaMarkers(
                start=tokenizer.token(config.vision_start_token_id),
                end=tokenizer.token(config.vision_end_token_id),
                image=tokenizer.token(config.image_token_id),
                video=tokenizer.token(config.video_token_id),
            ),
        )

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end an answer."""
        return self.tokenizer.eos_ids

    @property
    def forbidden_ids(self) -> tuple[int, ...]:
        """Ids that may never be sampled: the markers and placeholders of media."""
        return self.tokenizer.never_sampled

    def decode(self, ids: Sequence[int]) -> str:
        """The text of generated ids, without special tokens."""
        return self.tokenizer.decode(ids)

    def prepare(
        self, request: ChatRequest, shown_tokens: ShownTokens = all_tokens
    ) -> PreparedPrompt:
        """Decode, render, tokenize and lay out one request.

        The prompt's length is not limited here: what it will be after pruning is not known yet.

        Args:
            shown_tokens: see :meth:`VisualPreparer.prepare`.

        Raises:
            RequestError: the request cannot be prepared; the message says which part and why.
        """
        refuse_control_tokens(request, self.tokenizer)
        rendered = self._render(request)
        made = self.visuals.prepare(request.media, shown_tokens)
        text = place_media(rendered, request.media, made.items, self.markers)
        ids, spans = expand_placeholders(
            self.tokenizer.encode(text),
            made.items,
            pads=(self.config.image_token_id, self.config.video_token_id),
            merge_unit=self.config.vision.merge_unit,
        )
        merge = self.config.vision.merge_size
        grids = [(item.grid[0] // merge, item.grid[1] // merge) for item in made.items]
        positions, next_position = mrope_positions(len(ids), spans, grids)
        return PreparedPrompt(
            text=rendered,
            token_ids=torch.tensor(ids, dtype=torch.int64),
            positions=positions,
            next_position=next_position,
            spans=spans,
            media=tuple(made.items),
            decode_ms=made.decode_ms,
            patch_ms=made.patch_ms,
            notes=tuple(made.notes),
            shrunk_tokens=made.shrunk_tokens,
        )

    def _render(self, request: ChatRequest) -> str:
        if not request.apply_chat_template:
            return join_parts(request, self.markers)
        thinking = request.enable_thinking
        variables: dict[str, object] = {} if thinking is None else {"enable_thinking": thinking}
        if request.tools:
            variables["tools"] = [dict(tool) for tool in request.tools]
        return self.template.render(
            request.messages, add_generation_prompt=request.add_generation_prompt, **variables
        )
