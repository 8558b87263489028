"""What runs between a trusted selection and the shortened prompt reads no value on the host."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from edgevlm.pruners.compaction import indexed
from edgevlm.pruners.dart import torch_rows
from edgevlm.pruners.layout import Layout
from edgevlm.pruners.merging import Merger
from edgevlm.pruners.norms import torch_l1, torch_l2
from edgevlm.pruners.selection import MergeWeights

from .helpers import make_io


def test_dart_and_compaction() -> None:
    real = make_io(40, [(3, 20), (20, 36)])
    with FakeTensorMode() as mode:  # tensors without values: reading one raises
        io = type(real)(
            **{
                name: mode.from_tensor(value) if isinstance(value, torch.Tensor) else value
                for name, value in vars(real).items()
            }
        )
        layout = Layout.of(io, (9, 8))
        l1, l2 = torch_l1(io.embeds), torch_l2(io.embeds)
        kept = torch_rows(io.embeds, l1, l2, layout, 4, 4)
        assert kept.shape == (17,)
        short = indexed(io, kept, layout)
        assert short.embeds.shape == (24, 8)
        merge = MergeWeights(kept[:5], kept[3:8], torch.rand(5))
        Merger(merge, layout.surviving_rows(kept)).write(short.embeds, io.embeds)
