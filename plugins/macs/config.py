"""What decides how much each expert takes, and the tensor that carries it to every form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from ...core import UsageError

NAME = "MACS (reconstruction)"

# Word options, and what stands for each word in the settings tensor: its place here.
CHOICES = {
    "method": ("off", "macs", "token_drop", "expanded_drop"),
    "zscore_scope": ("batch", "image"),
    "capacity_basis": ("tokens", "effective"),
    "order": ("score", "weighted_score", "text_first"),
    "locality": ("destination", "source"),
    "similarity": ("router", "expert"),
    "rerouted_weight": ("target", "original"),
}
_RANGES: dict[str, tuple[float, float]] = {  # both ends are legal
    "capacity_factor": (1e-3, 1e6),
    "gain": (0.0, 2.0),
    "sensitivity": (0.0, 1e6),
    "minimum_capacity": (0.0, 1e6),
    "reroute_threshold": (0.0, 1e6),
    "token_limit": (0.0, 1e6),
    "epsilon": (1e-12, 1.0),
    "group_threshold": (0.0, 0.5),
    "devices": (1, 4096),
    "device": (0, 4095),
}


@dataclass(frozen=True)
class MacsConfig:
    """MACS (reconstruction), or a baseline of it, over the prompt rows of one MoE layer.

    What the paper states is in the equations; what it leaves open is an option here. See
    ``docs/macs.md`` for which is which.

    Args:
        method: ``macs``; ``token_drop`` and ``expanded_drop`` of capacity-aware inference
            (CAI-MoE), which use ``capacity_factor``, ``renormalize`` and, for ``expanded_drop``,
            the devices only; or ``off``.
        capacity_factor: gamma, the capacity of an expert as a multiple of the mean load.
        gain: rho, how far capacities follow the share of visual tokens; at most 2, which may take
            an expert's all.
        sensitivity: delta, how strongly entropy changes a visual token's weight.
        minimum_capacity: no expert's capacity falls below it; in tokens.
        reroute_threshold: tau, a token moves to another expert only if that one's probability is
            at least so many times that of the full one.
        token_limit: tokens an expert takes at most, whatever they weigh, as a multiple of the mean
            load; 0 for no limit. Bounds buffers and stragglers, which weights below 1 do not.
        epsilon: added to the standard deviation of entropies.
        zscore_scope: what a token's entropy is compared with: all visual tokens (``batch``, the
            equation) or those of its own ``image`` (the text).
        capacity_basis: whether the mean load counts ``tokens`` or their ``effective`` weights.
        order: who is admitted first: by router ``score``, ``weighted_score`` (times the token's
            weight), or ``text_first`` (then by score).
        reroute: whether what an expert has no room for may go to another one.
        locality: that other expert is on the device of the full one (``destination``) or on the
            token's own (``source``).
        similarity: it is the one the ``router`` likes best, or the most similar ``expert``.
        rerouted_weight: the probability of the ``target``, or the one of the ``original`` expert.
        renormalize: whether what is left of a token's weights is scaled to their former sum.
        keep_top1_text: a text token always keeps its first expert, which may then exceed its
            capacity by such tokens (and by nothing else).
        disable_when_text_only: prompts without visual tokens are left alone.
        devices: how many hold the experts, in equal runs of consecutive ids.
        device: which of them holds the tokens.
        group_threshold: theta, how far from an even share an expert must be to count as visual or
            text; used when groups are derived from a calibration.

    Raises:
        UsageError: a value is of the wrong type or out of range.
    """

    method: str = "macs"
    capacity_factor: float = 1.0
    gain: float = 0.5
    sensitivity: float = 1.0
    minimum_capacity: float = 1.0
    reroute_threshold: float = 0.0
    token_limit: float = 0.0
    epsilon: float = 1e-6
    zscore_scope: str = "batch"
    capacity_basis: str = "tokens"
    order: str = "score"
    reroute: bool = True
    locality: str = "destination"
    similarity: str = "router"
    rerouted_weight: str = "target"
    renormalize: bool = False
    keep_top1_text: bool = True
    disable_when_text_only: bool = False
    devices: int = 1
    device: int = 0
    group_threshold: float = 0.15

    def __post_init__(self) -> None:
        for option in fields(self):
            _check(option.name, str(option.type), getattr(self, option.name))
        if self.device >= self.devices:
            raise UsageError(
                f"MACS: device must be below devices ({self.devices}), got {self.device}"
            )

    @property
    def enabled(self) -> bool:
        """Whether it changes anything."""
        return self.method != "off"

    def settings(self, device: torch.device | str = "cpu") -> Tensor:
        """``[len(SETTINGS)]`` fp32, one entry per option, words as their place in ``CHOICES``.

        ``token_drop`` is MACS with unit weights and whole capacities, so its other options are
        those that make it so.
        """
        values: dict[str, Any] = {name: getattr(self, name) for name in SETTINGS}
        if self.method == "token_drop":
            values |= dict.fromkeys(("gain", "minimum_capacity", "token_limit"), 0.0)
            values |= dict.fromkeys(("reroute", "keep_top1_text", "disable_when_text_only"), False)
            values |= {"capacity_basis": "tokens", "order": "score"}
        numbers = [
            float(CHOICES[name].index(value)) if name in CHOICES else float(value)
            for name, value in values.items()
        ]
        return torch.tensor(numbers, dtype=torch.float32, device=device)

    @classmethod
    def from_mapping(cls, raw: Mapping[str, Any], default: MacsConfig | None = None) -> MacsConfig:
        """Lay a JSON object over ``default``; setting anything turns the method on.

        Raises:
            UsageError: not an object, an unknown option, or a wrong value.
        """
        base = cls(method="off") if default is None else default
        legal = [option.name for option in fields(cls)]
        if not isinstance(raw, Mapping):
            raise UsageError(f"MACS: settings must be an object of {', '.join(legal)}, got {raw!r}")
        unknown = [name for name in raw if name not in legal]
        if unknown:
            raise UsageError(f"MACS has no option {unknown[0]!r}; its options: {', '.join(legal)}")
        values = {name: getattr(base, name) for name in legal}
        if raw and not base.enabled:
            values["method"] = "macs"
        return cls(**{**values, **raw})


# The order of the settings tensor, which every form of the operator reads.
SETTINGS = tuple(option.name for option in fields(MacsConfig) if option.name != "group_threshold")
PLACE = {name: place for place, name in enumerate(SETTINGS)}


def choice(option: str, word: str) -> int:
    """What stands for ``word`` in the settings tensor."""
    return CHOICES[option].index(word)


def _check(name: str, kind: str, value: object) -> None:
    if name in CHOICES:
        if value not in CHOICES[name]:
            words = ", ".join(CHOICES[name])
            raise UsageError(f"MACS: {name} must be one of {words}, got {value!r}")
    elif kind == "bool":
        if not isinstance(value, bool):
            raise UsageError(f"MACS: {name} must be true or false, got {value!r}")
    else:
        least, most = _RANGES[name]
        number = type(value) is int or (kind == "float" and type(value) is float)
        if not number or not math.isfinite(value) or not least <= value <= most:  # type: ignore[arg-type, operator]
            wanted = "an integer" if kind == "int" else "a number"
            raise UsageError(f"MACS: {name} must be {wanted} in {least:g}..{most:g}, got {value!r}")


def require_onnx(config: MacsConfig) -> None:
    """Check that engines other than the torch one have what is asked.

    Raises:
        UsageError: ``config`` asks for more.
    """
    if config.method == "expanded_drop":
        raise UsageError("MACS: method expanded_drop runs on the torch backend only")
    if config.similarity == "expert":
        raise UsageError(
            "MACS: similarity 'expert' runs on the torch backend only; use 'router' here"
        )
