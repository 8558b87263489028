"""What holds for any input and any setting."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.plugins.macs import ENTRIES, MacsConfig, MacsReport, macs_capacity, token_drop
from edgevlm.plugins.macs.admission import one_hot
from edgevlm.plugins.macs.capacity import capacities
from edgevlm.plugins.macs.entropy import UNIT
from edgevlm.plugins.macs.reference import _taking_part, _weights, limit

from .cases import Case, cases, configs, make_case

MANY = settings(max_examples=60, deadline=None)


def held(case: Case, ids: torch.Tensor) -> torch.Tensor:
    return one_hot(ids.where(case.rows[:, None], case.experts), case.experts)


@MANY
@given(cases(), configs(method="macs"))
def test_no_expert_takes_more_than_its_capacity(case: Case, config: MacsConfig) -> None:
    found = macs_capacity(*case.inputs, config.settings())
    if config.disable_when_text_only and not (case.rows & case.visual).any():
        assert torch.equal(found.expert_ids, case.ids)
        return
    values = config.settings()
    rows, visual = _taking_part(case.rows, case.visual, values)
    units = _weights(case.hidden, visual, values)
    limits = capacities(units, rows, visual, case.groups, case.ids.shape[1], values)
    after = held(case, found.expert_ids)
    forced = torch.zeros_like(after)
    if config.keep_top1_text:
        forced = one_hot(case.ids[:, :1].where(case.taken[:, None], case.experts), case.experts)
    load, least = ((pairs * units[:, None]).sum(0) for pairs in (after, forced))
    assert (load <= limits.units.maximum(least)).all()
    assert (after.sum(0) <= limits.tokens.maximum(forced.sum(0))).all()


@MANY
@given(cases(), configs(keep_top1_text=True, method="macs"))
def test_text_is_never_lost(case: Case, config: MacsConfig) -> None:
    found = macs_capacity(*case.inputs, config.settings())
    assert torch.equal(found.expert_ids[case.taken, 0], case.ids[case.taken, 0])


@MANY
@given(cases(), configs())
def test_slots_are_kept_moved_nearby_or_dropped(case: Case, config: MacsConfig) -> None:
    found = macs_capacity(*case.inputs, config.settings())
    ids, experts = found.expert_ids, case.experts
    others = ids[~case.rows]
    assert torch.equal(others, case.ids[~case.rows])
    for before, after in zip(case.ids.tolist(), ids.tolist(), strict=True):
        live = [expert for expert in after if expert < experts]
        assert len(set(live)) == len(live)
        for old, new in zip(before, after, strict=True):
            if new in (old, experts):
                continue
            assert config.reroute and config.method == "macs" and new not in before
            source = config.locality == "source"
            home = config.device if source else old * config.devices // experts
            assert new * config.devices // experts == home
    assert (found.expert_weights[ids == experts] == 0).all()


@MANY
@given(cases(), configs(method="macs", reroute=False))
def test_weights_are_unchanged_or_renormalised(case: Case, config: MacsConfig) -> None:
    found = macs_capacity(*case.inputs, config.settings())
    kept = found.expert_ids < case.experts
    if not config.renormalize:
        assert torch.equal(found.expert_weights[kept], case.weights[kept])
        return
    some = kept.any(1)
    sums = found.expert_weights[some].sum(1)
    torch.testing.assert_close(sums, case.weights[some].sum(1))


@MANY
@given(cases(), st.sampled_from((0.3, 0.7, 1.0, 1.3)), st.booleans())
def test_macs_without_its_ideas_is_token_drop(case: Case, factor: float, renorm: bool) -> None:
    drop = MacsConfig(method="token_drop", capacity_factor=factor, renormalize=renorm)
    by_drop = macs_capacity(*case.inputs, drop.settings())
    apart = token_drop(drop, *case.inputs[1:6])
    assert torch.equal(by_drop.expert_ids, apart.expert_ids)
    assert torch.equal(by_drop.expert_weights, apart.expert_weights)
    torch.testing.assert_close(by_drop.report, apart.report)

    tokens, slots = int(case.rows.sum()), case.ids.shape[1]
    whole = torch.tensor(factor * tokens * slots / case.experts - 1e-5).ceil()
    plain = MacsConfig(
        capacity_factor=max(1e-3, float(whole) * case.experts / max(1, tokens * slots)),
        gain=0.0,
        reroute=False,
        minimum_capacity=0.0,
        keep_top1_text=False,
        renormalize=renorm,
    )
    units = torch.full((len(case.rows),), UNIT)
    visual = case.rows & case.visual
    _, *choice, _, _, groups = case.inputs
    same = limit(*choice, case.rows, visual, units, groups, plain.settings())
    assert torch.equal(same.expert_ids, apart.expert_ids)
    assert torch.equal(same.expert_weights, apart.expert_weights)


@MANY
@given(cases(), configs(zscore_scope="batch", sensitivity=1.0), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(case: Case, config: MacsConfig, random) -> None:
    generator = torch.Generator().manual_seed(random.randrange(2**31))
    # Among equal probabilities the earlier row wins, so they must differ here.
    noise = torch.rand(case.probabilities.shape, generator=generator) * 1e-3
    probabilities = (case.probabilities + noise).softmax(1)
    best, ids = probabilities.topk(case.ids.shape[1])
    case = replace(case, probabilities=probabilities, ids=ids, weights=best)
    order = torch.randperm(len(case.rows), generator=generator)
    moved = [t[order] for t in case.inputs[:-1]]
    values = config.settings()
    rows, visual = _taking_part(case.rows, case.visual, values)
    units = _weights(case.hidden, visual, values)  # whose sums depend on the order by rounding
    given_units = (case.inputs[1:4], rows, visual, units)
    first = limit(*given_units[0], *given_units[1:], case.groups, values)
    second = limit(*moved[1:4], rows[order], visual[order], units[order], case.groups, values)
    assert torch.equal(first.expert_ids[order], second.expert_ids)


def test_weights_below_one_let_experts_take_more_tokens() -> None:
    case = make_case(0, 200, 8, 2, visual=1.0)
    mean = 200 * 2 / 8
    loose = MacsReport.read(macs_capacity(*case.inputs, MacsConfig().settings()).report)
    assert loose.raw_after > 1.5 * mean and loose.effective_after <= loose.capacity_most
    tight = MacsConfig(token_limit=1.2, keep_top1_text=False)
    limited = MacsReport.read(macs_capacity(*case.inputs, tight.settings()).report)
    assert limited.raw_after <= 1.2 * mean + 1


@pytest.mark.parametrize("visual", [0.0, 1.0])
@pytest.mark.parametrize("rows", [1, 30])
def test_one_modality(visual: float, rows: int) -> None:
    case = make_case(3, rows, 6, 2, visual=visual)
    report = MacsReport.read(macs_capacity(*case.inputs, MacsConfig().settings()).report)
    assert report.visual_ratio == visual
    base = max(1.0, rows * 2 / 6)
    if rows > 1:  # groups of both kinds widen and narrow it by a quarter
        assert report.capacity_most == pytest.approx(1.25 * base, rel=1e-4)
        assert report.capacity_least == pytest.approx(0.75 * base, rel=1e-4)


def test_one_visual_token_weighs_half() -> None:
    case = make_case(0, 1, 4, 1, visual=1.0)
    report = MacsReport.read(macs_capacity(*case.inputs, MacsConfig().settings()).report)
    assert report.weight == 0.5


def test_no_rows() -> None:
    case = make_case(0, 5, 4, 2)
    nothing = replace(case, **{n: getattr(case, n)[:0] for n in ("hidden", "probabilities", "ids")})
    nothing = replace(nothing, **{n: getattr(case, n)[:0] for n in ("weights", "rows", "visual")})
    found = macs_capacity(*nothing.inputs, MacsConfig().settings())
    assert found.expert_ids.shape == (0, 2) and found.report.shape == (len(ENTRIES),)


def test_dropped_slots_stay_dropped() -> None:
    case = make_case(0, 20, 4, 2)
    case.ids[::2, 1] = 4
    found = macs_capacity(*case.inputs, MacsConfig().settings())
    assert (found.expert_ids[::2, 1] == 4).all()


def test_the_most_similar_expert_can_be_the_target() -> None:
    case = make_case(1, 60, 6, 2, visual=1.0)
    config = MacsConfig(capacity_factor=0.4, similarity="expert")
    similarity = torch.eye(6).roll(1, 1) + 0.01 * torch.rand(6, 6)
    found = macs_capacity(*case.inputs, config.settings(), similarity)
    moves = [
        (old, new)
        for before, after in zip(case.ids.tolist(), found.expert_ids.tolist(), strict=True)
        for old, new in zip(before, after, strict=True)
        if new not in (old, 6)
    ]
    assert sum(new == (old + 1) % 6 for old, new in moves) > len(moves) / 3
