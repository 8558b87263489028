"""The images and videos of a request, decoded, sized and cut into patches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from PIL import Image

from ..core import RequestError, UsageError
from ..models import VisionConfig
from .image_size import FittedSize, fit_image, keep_image, shrink_size
from .media import MediaLimits, decode_image
from .patches import resize, to_patches
from .preprocessor_config import PreprocessorConfig
from .prompt import VisualItem
from .request import ImagePart, MediaPart, VideoPart
from .source import ImageSource, describe_source
from .video import fit_video, frame_groups, timestamp

ShownTokens = Callable[[int], int]
"""Given the visual tokens an item would have, about how many it is to have instead."""


def all_tokens(tokens: int) -> int:
    """Shrink nothing."""
    return tokens


@dataclass(frozen=True)
class VisualLimits:
    """What media may cost.

    Args:
        max_tokens: visual tokens per image or frame group that the engine can take; what is
            larger is reduced to it, with a note. ``None``: the checkpoint's own bound alone.
        max_patches: patches of all media of one request, before pruning. ``None``: no limit.
        media: limits of one encoded image.
    """

    max_tokens: int | None = None
    max_patches: int | None = None
    media: MediaLimits = field(default_factory=MediaLimits)

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_patches"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")


@dataclass
class VisualItems:
    """The visual items of one request, and what making them took. Filled part by part."""

    items: list[VisualItem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    patches: int = 0
    shrunk_tokens: int = 0
    decode_ms: float = 0.0
    patch_ms: float = 0.0


@dataclass(frozen=True)
class VisualPreparer:
    """Makes visual items of media parts; a missing configuration means that kind is not taken."""

    vision: VisionConfig
    image: PreprocessorConfig | None
    video: PreprocessorConfig | None
    limits: VisualLimits

    @property
    def factor(self) -> int:
        """Pixels along one side of a visual token."""
        return self.vision.patch_size * self.vision.merge_size

    def prepare(
        self, parts: Sequence[MediaPart], shown_tokens: ShownTokens = all_tokens
    ) -> VisualItems:
        """One item per image, one per frame group of a video, in order.

        Parts are finished one by one, so only one image or video is held as pixels at a time.

        Args:
            shown_tokens: asked for every image and every frame group of a video; a smaller answer
                than the question shrinks it, unless it must not be resized.

        Raises:
            RequestError: a source cannot be decoded or has an impossible size, frames differ in
                size, or the request exceeds ``max_patches``. The message names the part.
        """
        made = VisualItems()
        for index, part in enumerate(parts):
            kind = "image" if isinstance(part, ImagePart) else "video"
            try:
                if isinstance(part, ImagePart):
                    self._image(part, index, made, shown_tokens)
                else:
                    self._video(part, index, made, shown_tokens)
            except RequestError as error:
                raise RequestError(f"media {index} ({kind}): {error}") from None
        return made

    def _image(
        self, part: ImagePart, index: int, made: VisualItems, shown_tokens: ShownTokens
    ) -> None:
        if self.image is None:
            raise RequestError(
                "images need preprocessor_config.json, which was not found; open the visual "
                "engine's directory too"
            )
        (image,) = self._decode([part.source], made)
        name = describe_source(part.source)
        try:
            if part.do_resize:
                size = fit_image(
                    image.height,
                    image.width,
                    factor=self.factor,
                    min_pixels=self.image.min_pixels,
                    max_pixels=self.image.max_pixels,
                    max_tokens=self.limits.max_tokens,
                )
            else:
                size = keep_image(
                    image.height,
                    image.width,
                    factor=self.factor,
                    max_tokens=self.limits.max_tokens,
                )
        except RequestError as error:
            raise RequestError(f"{name}: {error}") from None
        self._account(size, 1, f"media {index} ({name})", made)
        if part.do_resize:
            size = self._shrink(size, 1, made, shown_tokens)
        self._add([image], size, self.image, index, None, made)

    def _video(
        self, part: VideoPart, index: int, made: VisualItems, shown_tokens: ShownTokens
    ) -> None:
        if self.video is None:
            raise RequestError(
                "videos need video_preprocessor_config.json, which was not found; open the visual "
                "engine's directory, or use a checkpoint that takes videos"
            )
        frames = self._decode(part.frames, made)
        height, width = frames[0].height, frames[0].width
        for place, frame in enumerate(frames):
            if frame.size != (width, height):
                raise RequestError(
                    f"frame {place} is {frame.width}x{frame.height}, frame 0 is {width}x{height}; "
                    "all frames must have one size"
                )
        groups = frame_groups(len(frames), self.vision.temporal_patch_size)
        size = fit_video(
            len(frames),
            height,
            width,
            self.video,
            factor=self.factor,
            group_size=self.vision.temporal_patch_size,
            max_tokens=self.limits.max_tokens,
        )
        self._account(size, len(groups), f"media {index} ({len(frames)} frames)", made)
        size = self._shrink(size, len(groups), made, shown_tokens)
        for group in groups:
            seconds = timestamp(group, part.fps)
            self._add([frames[i] for i in group], size, self.video, index, seconds, made)

    def _decode(self, sources: Sequence[ImageSource], made: VisualItems) -> list[Image.Image]:
        with _timed(made, "decode_ms"):
            return [decode_image(source, self.limits.media) for source in sources]

    def _account(self, size: FittedSize, items: int, name: str, made: VisualItems) -> None:
        """Refuse what is too much before any patch exists, and note what the engine reduced."""
        tokens = self._tokens(size)
        made.patches += items * tokens * self.vision.merge_unit
        most = self.limits.max_patches
        if most is not None and made.patches > most:
            raise RequestError(
                f"the request's media up to here are {made.patches} patches; at most {most} are "
                "accepted; send fewer or smaller ones"
            )
        if size.clamped:
            made.notes.append(
                f"{name}: reduced to {size.width}x{size.height}, {tokens} visual tokens instead of "
                f"{size.wanted_tokens}: the engine takes at most {self.limits.max_tokens}"
            )

    def _shrink(
        self, size: FittedSize, items: int, made: VisualItems, shown_tokens: ShownTokens
    ) -> FittedSize:
        tokens = self._tokens(size)
        wanted = max(1, shown_tokens(tokens))
        if wanted >= tokens:
            return size
        smaller = shrink_size(size, wanted, factor=self.factor)
        made.shrunk_tokens += items * (tokens - self._tokens(smaller))
        return smaller

    def _tokens(self, size: FittedSize) -> int:
        return size.height * size.width // self.factor**2

    def _add(
        self,
        frames: Sequence[Image.Image],
        size: FittedSize,
        config: PreprocessorConfig,
        index: int,
        seconds: float | None,
        made: VisualItems,
    ) -> None:
        with _timed(made, "patch_ms"):
            resized = [resize(frame, size.height, size.width) for frame in frames]
            patches = to_patches(resized, config, self.vision)
        side = self.vision.patch_size
        grid = (size.height // side, size.width // side)
        made.items.append(VisualItem(patches, grid, index, seconds))


@contextmanager
def _timed(made: VisualItems, name: str) -> Iterator[None]:
    """Add the milliseconds of a block to ``made.<name>``."""
    start = time.perf_counter()
    yield
    setattr(made, name, getattr(made, name) + (time.perf_counter() - start) * 1e3)
