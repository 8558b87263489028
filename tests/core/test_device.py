"""Devices by name."""

from __future__ import annotations

import pytest
import torch

from edgevlm.core import UsageError
from edgevlm.core.device import device_name, torch_device


def test_without_a_name_it_is_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, name in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert device_name(None) == name
        assert device_name("cuda:3") == "cuda:3"
    assert torch_device(None) == torch.device("cpu")


def test_one_that_is_not_there_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"^engine on tpu9: ") as caught:
        torch_device("tpu9", "engine on {name}")
    assert "\n" not in str(caught.value)
