"""``edgevlm.SereRouting`` as an ONNX function: standard operators, for any backend."""

from __future__ import annotations

import onnx
import onnx.parser

NAME = "SereRouting"
DOMAIN = "edgevlm"

# What has no vote is given the id N and counted beyond the last expert. That an expert which is
# primary stays, makes the limits of top_k (none primary, all primary) no special cases.
_BODY = f"""
<domain: "{DOMAIN}", opset_import: ["" : 24]>
{NAME} (expert_ids, similarity, protected, decode_rows, top_k, threshold) => (routed_ids, active)
{{
    zero = Constant<value = int64 {{0}}>()
    one = Constant<value = int64 {{1}}>()
    first_axis = Constant<value_ints = [0]>()
    second_axis = Constant<value_ints = [1]>()
    points = Constant<value_ints = [-1, 1]>()
    nothing = Constant<value = float {{-inf}}>()
    no_threshold = Constant<value = float {{0}}>()

    experts_1 = Shape<start = 0, end = 1>(similarity)
    experts = Squeeze(experts_1, first_axis)
    number = Range(zero, experts, one)
    slots_1 = Shape<start = 1, end = 2>(expert_ids)
    slots = Squeeze(slots_1, first_axis)
    column = Range(zero, slots, one)

    is_id = GreaterOrEqual(expert_ids, zero)
    is_expert = Less(expert_ids, experts)
    in_range = And(is_id, is_expert)
    row_votes = Unsqueeze(decode_rows, second_axis)
    votes = And(in_range, row_votes)
    index = Where(votes, expert_ids, experts)
    used_points = Reshape(index, points)
    points_1 = Shape<start = 0, end = 1>(used_points)
    ones = Expand(one, points_1)
    marks_1 = Add(experts_1, one)
    no_marks = Expand(zero, marks_1)

    strong = Less(column, top_k)
    strong_index = Where(strong, index, experts)
    strong_points = Reshape(strong_index, points)
    primary_marks = ScatterND(no_marks, strong_points, ones)
    primary_count = Slice(primary_marks, first_axis, experts_1)
    primary = Greater(primary_count, zero)

    no_number = IsNaN(similarity)
    a_number = Not(no_number)
    candidate = And(a_number, primary)
    candidates = Where(candidate, similarity, nothing)
    best_column = ReduceMax(candidates, second_axis)
    is_best = Equal(candidates, best_column)
    best_numbers = Where(is_best, number, experts)
    nearest = ReduceMin<keepdims = 0>(best_numbers, second_axis)
    best = Squeeze(best_column, second_axis)

    has_none = Equal(best, nothing)
    too_far = Less(best, threshold)
    limited = Greater(threshold, no_threshold)
    refused = And(too_far, limited)
    own = Or(primary, protected)
    alone = Or(own, has_none)
    stays = Or(alone, refused)
    target = Where(stays, number, nearest)
    target_1 = Concat<axis = 0>(target, experts_1)
    moved = Gather<axis = 0>(target_1, index)
    routed_ids = Where(votes, moved, expert_ids)

    before_marks = ScatterND(no_marks, used_points, ones)
    before_used = Slice(before_marks, first_axis, experts_1)
    before = ReduceSum(before_used, first_axis)
    moved_points = Reshape(moved, points)
    after_marks = ScatterND(no_marks, moved_points, ones)
    after_used = Slice(after_marks, first_axis, experts_1)
    after = ReduceSum(after_used, first_axis)
    active = Concat<axis = 0>(before, after)
}}
"""


def function() -> onnx.FunctionProto:
    """The function; inputs, outputs and their meaning are those of
    :func:`~edgevlm.plugins.sere.reference.reroute`, ids being int64.
    """
    return onnx.parser.parse_function(_BODY)
