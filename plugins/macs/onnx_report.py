"""The report part of the ONNX function."""

from __future__ import annotations

from .report import ENTRIES

# Of entries whose names are those of inputs or other values.
_OTHER_NAMES = {
    "rows": "report_rows",
    "visual_rows": "report_visual_rows",
    "weight": "weight_sum",
    "visual_ratio": "ratio",
}


def _loads(name: str, marks: str) -> str:
    """Largest loads of experts and devices, of the pairs in ``marks [R,N]`` int64."""
    return f"""
    {name}_raw = ReduceSum<keepdims = 0>({marks}, first_axis)
    {name}_pair_units = Mul({marks}, unit_column)
    {name}_load = ReduceSum<keepdims = 0>({name}_pair_units, first_axis)
    {name}_zero = Mul({name}_raw, none)
    {name}_device = ScatterElements<axis = 0, reduction = "add">(
        {name}_zero, expert_device, {name}_raw
    )
    {name}_raw_most = ReduceMax<keepdims = 0>({name}_raw, first_axis)
    {name}_load_most = ReduceMax<keepdims = 0>({name}_load, first_axis)
    {name}_device_most = ReduceMax<keepdims = 0>({name}_device, first_axis)
    raw_{name} = Cast<to = 1>({name}_raw_most)
    {name}_load_real = Cast<to = 1>({name}_load_most)
    effective_{name} = Mul({name}_load_real, a_unit)
    device_{name} = Cast<to = 1>({name}_device_most)
"""


REPORT = (
    """
    routed_part = Where(part_column, routed_ids, expert_number)
    after_extended = ScatterElements<axis = 1>(no_marks, routed_part, ones)
    after_marks = Slice(after_extended, first_axis, expert_number_1, second_axis)
"""
    + _loads("before", "chosen_marks")
    + _loads("after", "after_marks")
    + """
    report_rows = Cast<to = 1>(token_number)
    visual_number = ReduceSum<keepdims = 0>(visual_marks, first_axis)
    report_visual_rows = Cast<to = 1>(visual_number)
    least_units = ReduceMin<keepdims = 0>(limits, first_axis)
    most_units = ReduceMax<keepdims = 0>(limits, first_axis)
    least_units_real = Cast<to = 1>(least_units)
    most_units_real = Cast<to = 1>(most_units)
    capacity_least = Mul(least_units_real, a_unit)
    capacity_most = Mul(most_units_real, a_unit)

    is_gone = Equal(routed_ids, expert_number)
    is_dropped = And(live, is_gone)
    visual_column = Unsqueeze(visual, second_axis)
    text_or_other = Not(visual_column)
    is_dropped_visual = And(is_dropped, visual_column)
    is_dropped_text = And(is_dropped, text_or_other)
    dropped_visual_marks = Cast<to = 1>(is_dropped_visual)
    dropped_text_marks = Cast<to = 1>(is_dropped_text)
    dropped_visual = ReduceSum<keepdims = 0>(dropped_visual_marks)
    dropped_text = ReduceSum<keepdims = 0>(dropped_text_marks)
    is_moved = And(changed, still_live)
    moved_marks = Cast<to = 1>(is_moved)
    rerouted = ReduceSum<keepdims = 0>(moved_marks)
    row_before = ReduceSum<keepdims = 0>(chosen_marks, second_axis)
    row_after = ReduceSum<keepdims = 0>(after_marks, second_axis)
    had_any = Greater(row_before, none)
    has_none = Equal(row_after, none)
    is_lost = And(had_any, has_none)
    lost_marks = Cast<to = 1>(is_lost)
    lost_rows = ReduceSum<keepdims = 0>(lost_marks)
    over_units = Sub(after_load, limits)
    over_most = ReduceMax<keepdims = 0>(over_units, first_axis)
    over_least = Max(over_most, none)
    over_real = Cast<to = 1>(over_least)
    over_capacity = Mul(over_real, a_unit)
"""
    + "".join(
        f"    entry_{name} = Reshape({_OTHER_NAMES.get(name, name)}, flat_shape)\n"
        for name in ENTRIES
    )
    + f"    report = Concat<axis = 0>({', '.join(f'entry_{name}' for name in ENTRIES)})\n"
)
