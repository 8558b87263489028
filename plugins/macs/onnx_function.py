"""``edgevlm.MacsCapacity`` as an ONNX function: standard operators, for any backend.

First fit and re-routing go one token after another by definition. Here both go in rounds that
decide many tokens at once and end when nothing changes, with the same result: the kernels say why.
"""

from __future__ import annotations

import onnx
import onnx.parser

from .config import PLACE, choice
from .entropy import UNIT
from .onnx_admission import ADMISSION
from .onnx_report import REPORT
from .onnx_rerouting import REROUTING

NAME = "MacsCapacity"
DOMAIN = "edgevlm"

_CONSTANTS = f"""
    none = Constant<value = int64 {{0}}>()
    one = Constant<value = int64 {{1}}>()
    one_token = Constant<value = int64 {{{UNIT}}}>()
    no_number = Constant<value = float {{0}}>()
    half = Constant<value = float {{0.5}}>()
    one_number = Constant<value = float {{1}}>()
    tiny = Constant<value = float {{1e-20}}>()
    a_unit = Constant<value = float {{{1 / UNIT!r}}}>()
    units_number = Constant<value = float {{{float(UNIT)!r}}}>()
    short = Constant<value = float {{0.999999}}>()
    unbounded = Constant<value = float {{2147483648}}>()
    no = Constant<value = bool {{0}}>()
    first_axis = Constant<value_ints = [0]>()
    second_axis = Constant<value_ints = [1]>()
    first_only = Constant<value_ints = [1]>()
    last_left = Constant<value_ints = [-1]>()
    column_shape = Constant<value_ints = [-1, 1]>()
    flat_shape = Constant<value_ints = [-1]>()
"""

_SIZES = """
    row_number_1 = Shape<start = 0, end = 1>(probabilities)
    expert_number_1 = Shape<start = 1, end = 2>(probabilities)
    expert_number = Squeeze(expert_number_1, first_axis)
    row_number = Squeeze(row_number_1, first_axis)
    expert_number_real = Cast<to = 1>(expert_number)
    slot_number_1 = Shape<start = 1, end = 2>(expert_ids)
    slot_number_wide = Squeeze(slot_number_1, first_axis)
    slot_number = Cast<to = 1>(slot_number_wide)
    expert = Range(none, expert_number, one)
    last_expert = Sub(expert_number, one)
    extended_1 = Add(expert_number_1, first_only)
    row_expert_extended = Concat<axis = 0>(row_number_1, extended_1)
"""

_TAKING_PART = f"""
    off = Constant<value = float {{{choice("method", "off")}}}>()
    is_off = Equal(method, off)
    seen = And(rows, visual_rows)
    seen_marks = Cast<to = 7>(seen)
    seen_number = ReduceSum<keepdims = 0>(seen_marks, first_axis)
    text_only = Equal(seen_number, none)
    stops_for_text = Cast<to = 9>(disable_when_text_only)
    stops_here = And(text_only, stops_for_text)
    stops = Or(is_off, stops_here)
    goes_on = Not(stops)
    part = And(rows, goes_on)
    visual = And(seen, goes_on)
    not_visual = Not(visual)
    text = And(part, not_visual)
    part_column = Unsqueeze(part, second_axis)
    ids = Where(part_column, expert_ids, expert_number)
"""

_WEIGHTS = f"""
    features = Cast<to = 1>(hidden)
    highest = ReduceMax(features, second_axis)
    below = Sub(features, highest)
    powers = Exp(below)
    power_sum = ReduceSum<keepdims = 0>(powers, second_axis)
    weighted_powers = Mul(below, powers)
    weighted_sum = ReduceSum<keepdims = 0>(weighted_powers, second_axis)
    log_sum = Log(power_sum)
    mean_below = Div(weighted_sum, power_sum)
    entropy = Sub(log_sum, mean_below)

    image_scope = Constant<value = float {{{choice("zscore_scope", "image")}}}>()
    by_image = Equal(zscore_scope, image_scope)
    by_image_1 = Cast<to = 7>(by_image)
    visual_marks = Cast<to = 7>(visual)
    but_last = Slice(visual_marks, first_axis, last_left)
    one_before = Concat<axis = 0>(first_axis, but_last)
    ended = Sub(one, one_before)
    starts = Mul(visual_marks, ended)
    images_so_far = CumSum(starts, none)
    image_from_zero = Sub(images_so_far, one)
    image_number = Max(image_from_zero, none)
    image = Mul(image_number, by_image_1)

    present = Cast<to = 1>(visual)
    no_sums = Expand(no_number, row_number_1)
    counts = ScatterElements<axis = 0, reduction = "add">(no_sums, image, present)
    own_counts = Gather(counts, image)
    sizes = Max(own_counts, one_number)
    seen_entropy = Mul(entropy, present)
    sums = ScatterElements<axis = 0, reduction = "add">(no_sums, image, seen_entropy)
    own_sums = Gather(sums, image)
    means = Div(own_sums, sizes)
    apart = Sub(entropy, means)
    centred = Mul(apart, present)
    squares = Mul(centred, centred)
    square_sums = ScatterElements<axis = 0, reduction = "add">(no_sums, image, squares)
    own_square_sums = Gather(square_sums, image)
    variances = Div(own_square_sums, sizes)
    deviations = Sqrt(variances)
    scales = Add(deviations, epsilon)
    z = Div(centred, scales)
    steep = Mul(z, sensitivity)
    falling = Neg(steep)
    weight = Sigmoid(falling)
    weight_units = Mul(weight, units_number)
    weight_rounding = Add(weight_units, half)
    weight_whole = Floor(weight_rounding)
    visual_units = Cast<to = 7>(weight_whole)
    semantic_units = Where(visual, visual_units, one_token)
    token_drop = Constant<value = float {{{choice("method", "token_drop")}}}>()
    counted = Equal(method, token_drop)
    units = Where(counted, one_token, semantic_units)
"""

_LIMITS = f"""
    part_units = Where(part, units, none)
    part_visual_units = Where(visual, units, none)
    unit_sum = ReduceSum<keepdims = 0>(part_units, first_axis)
    visual_sum = ReduceSum<keepdims = 0>(part_visual_units, first_axis)
    visual_sum_real = Cast<to = 1>(visual_sum)
    unit_sum_one = Max(unit_sum, one)
    unit_sum_one_real = Cast<to = 1>(unit_sum_one)
    ratio = Div(visual_sum_real, unit_sum_one_real)
    part_marks = Cast<to = 7>(part)
    token_number = ReduceSum<keepdims = 0>(part_marks, first_axis)
    tokens_real = Cast<to = 1>(token_number)
    asked_slots = Mul(tokens_real, slot_number)
    mean_load = Div(asked_slots, expert_number_real)
    unit_sum_real = Cast<to = 1>(unit_sum)
    weight_sum = Mul(unit_sum_real, a_unit)
    weighted_slots = Mul(weight_sum, slot_number)
    effective_load = Div(weighted_slots, expert_number_real)
    effective_basis = Constant<value = float {{{choice("capacity_basis", "effective")}}}>()
    by_weight = Equal(capacity_basis, effective_basis)
    basis = Where(by_weight, effective_load, mean_load)
    base = Mul(capacity_factor, basis)
    lean = Mul(gain, groups)
    ratio_apart = Sub(ratio, half)
    lean_by = Mul(lean, ratio_apart)
    factor = Add(one_number, lean_by)
    adapted_free = Mul(base, factor)
    adapted = Max(adapted_free, minimum_capacity)
    base_short = Mul(base, short)
    base_whole = Ceil(base_short)
    whole = Min(base_whole, tokens_real)
    capacity_free = Where(counted, whole, adapted)
    capacity = Min(capacity_free, unbounded)
    capacity_units = Mul(capacity, units_number)
    capacity_rounding = Add(capacity_units, half)
    capacity_floor = Floor(capacity_rounding)
    limits = Cast<to = 7>(capacity_floor)
    limit_free = Mul(token_limit, mean_load)
    limit_short = Mul(limit_free, short)
    limit_whole = Ceil(limit_short)
    limit_least = Max(limit_whole, one_number)
    limit_most = Min(limit_least, unbounded)
    is_limited = Greater(token_limit, no_number)
    token_limit_real = Where(is_limited, limit_most, unbounded)
    most_tokens = Cast<to = 7>(token_limit_real)
"""

_SLOTS = f"""
    destination = Where(admitted, expert, pair_target)
    ids_inside = Min(ids, last_expert)
    found_ids = GatherElements<axis = 1>(destination, ids_inside)
    live = Less(ids, expert_number)
    routed_ids = Where(live, found_ids, expert_ids)

    was = Cast<to = 1>(expert_weights)
    before_inside = Min(expert_ids, last_expert)
    after_inside = Min(routed_ids, last_expert)
    old_scores = GatherElements<axis = 1>(probabilities, before_inside)
    new_scores = GatherElements<axis = 1>(probabilities, after_inside)
    was_live = Less(expert_ids, expert_number)
    live_weights = Where(was_live, was, no_number)
    live_scores = Where(was_live, old_scores, no_number)
    live_weight = ReduceSum(live_weights, second_axis)
    live_score_free = ReduceSum(live_scores, second_axis)
    live_score = Max(live_score_free, tiny)
    scale = Div(live_weight, live_score)
    target_weight = Constant<value = float {{{choice("rerouted_weight", "target")}}}>()
    by_target = Equal(rerouted_weight, target_weight)
    same_slot = Equal(expert_ids, routed_ids)
    changed = Not(same_slot)
    reweighed = And(changed, by_target)
    new_weights = Mul(new_scores, scale)
    changed_weights = Where(reweighed, new_weights, was)
    still_live = Less(routed_ids, expert_number)
    kept_weights = Where(still_live, changed_weights, no_number)
    former_sum = ReduceSum(was, second_axis)
    kept_sum_free = ReduceSum(kept_weights, second_axis)
    kept_sum = Max(kept_sum_free, tiny)
    stretch = Div(former_sum, kept_sum)
    stretched = Mul(kept_weights, stretch)
    stretches = Cast<to = 9>(renormalize)
    found_weights = Where(stretches, stretched, kept_weights)
    changed_marks = Cast<to = 7>(changed)
    change_number = ReduceSum(changed_marks, second_axis)
    touched = Greater(change_number, none)
    final_weights = Where(touched, found_weights, was)
    routed_weights = CastLike(final_weights, expert_weights)
"""

_INPUTS = "hidden, probabilities, expert_ids, expert_weights, rows, visual_rows, groups, settings"


def function() -> onnx.FunctionProto:
    """The function; its inputs are those of :func:`~edgevlm.plugins.macs.reference.macs_capacity`
    without ``similarity``, ids being int64; outputs ``routed_ids, routed_weights, report``.
    """
    settings = "".join(
        f"    {name}_at = Constant<value = int64 {{{place}}}>()\n"
        f"    {name} = Gather(settings, {name}_at)\n"
        for name, place in PLACE.items()
        if name != "similarity"
    )
    parts = (
        _CONSTANTS,
        settings,
        _SIZES,
        _TAKING_PART,
        _WEIGHTS,
        _LIMITS,
        ADMISSION,
        REROUTING,
        _SLOTS,
        REPORT,
    )
    header = f'<domain: "{DOMAIN}", opset_import: ["" : 24]>\n'
    signature = f"{NAME} ({_INPUTS}) => (routed_ids, routed_weights, report)\n"
    return onnx.parser.parse_function(f"{header}{signature}{{{''.join(parts)}}}")
