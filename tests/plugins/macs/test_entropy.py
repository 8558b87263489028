"""Entropy and what it is compared with."""

from __future__ import annotations

import torch

from edgevlm.plugins.macs.entropy import feature_entropy, images, z_scores


def test_entropy_is_that_of_the_softmax() -> None:
    hidden = torch.randn(20, 300, dtype=torch.float64) * 40
    expected = torch.distributions.Categorical(logits=hidden).entropy()
    torch.testing.assert_close(feature_entropy(hidden), expected.float(), rtol=1e-5, atol=1e-5)


def test_an_image_is_a_run_of_visual_rows() -> None:
    visual = torch.tensor([0, 1, 1, 0, 0, 1, 0, 1, 1, 1]).bool()
    assert images(visual)[visual].tolist() == [0, 0, 1, 2, 2, 2]


def test_scores_within_images() -> None:
    visual = torch.tensor([0, 1, 1, 1, 0, 1, 1]).bool()
    entropy = torch.tensor([9.0, 1.0, 2.0, 6.0, 9.0, 4.0, 4.0])
    found = z_scores(entropy, visual, images(visual), torch.tensor(1e-6))
    first = entropy[1:4]
    expected = (first - first.mean()) / first.std(correction=0)
    torch.testing.assert_close(found[1:4], expected)
    assert found[[0, 4, 5, 6]].tolist() == [0.0] * 4
