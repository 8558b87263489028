"""The admission part of the ONNX function: first fit in rounds, all experts at once."""

from __future__ import annotations

from .config import choice


def _turn(name: str, before: str) -> str:
    """Rounds over the candidates ``{name}_candidates``, on top of the state after ``before``.

    Per round whoever is in front of the first that does not fit is taken; all as heavy as the room
    then left are out for good.
    """
    return f"""
    {name}_room = Sub(limit_column, {before}_units)
    {name}_places = Sub(most_tokens, {before}_tokens)
    {name}_light = LessOrEqual(sorted_units, {name}_room)
    {name}_open = Greater({name}_places, none)
    {name}_can = And({name}_light, {name}_open)
    {name}_waits = And({name}_candidates, {name}_can)
    {name}_wait_marks = Cast<to = 7>({name}_waits)
    {name}_wait_number = ReduceSum<keepdims = 0>({name}_wait_marks)
    {name}_begins = Greater({name}_wait_number, none)
    {name}_left, {name}_taken, {name}_units, {name}_tokens = Loop(
        row_number, {name}_begins, {name}_waits, {before}_taken, {before}_units, {before}_tokens
    ) <body = {name}_round (
        int64 {name}_i, bool {name}_go,
        bool[N,R] waits, bool[N,R] taken, int64[N,1] used, int64[N,1] held
    ) => (
        bool goes,
        bool[N,R] next_waits, bool[N,R] next_taken, int64[N,1] next_used, int64[N,1] next_held
    ) {{
        waiting = Cast<to = 7>(waits)
        waiting_units = Mul(waiting, sorted_units)
        unit_line = CumSum(waiting_units, one)
        token_line = CumSum(waiting, one)
        room = Sub(limit_column, used)
        places = Sub(most_tokens, held)
        units_fit = LessOrEqual(unit_line, room)
        tokens_fit = LessOrEqual(token_line, places)
        both_fit = And(units_fit, tokens_fit)
        fits = And(waits, both_fit)
        joined = Cast<to = 7>(fits)
        joined_units = Mul(joined, sorted_units)
        gain_units = ReduceSum(joined_units, second_axis)
        gain_tokens = ReduceSum(joined, second_axis)
        next_used = Add(used, gain_units)
        next_held = Add(held, gain_tokens)
        next_taken = Or(taken, fits)
        next_room = Sub(limit_column, next_used)
        next_places = Sub(most_tokens, next_held)
        light = LessOrEqual(sorted_units, next_room)
        is_open = Greater(next_places, none)
        can = And(light, is_open)
        is_out = Not(fits)
        remains = And(waits, is_out)
        next_waits = And(remains, can)
        next_marks = Cast<to = 7>(next_waits)
        next_number = ReduceSum<keepdims = 0>(next_marks)
        goes = Greater(next_number, none)
    }}>
"""


ADMISSION = (
    f"""
    no_marks = Expand(none, row_expert_extended)
    one_mark = Mul(ids, none)
    ones = Add(one_mark, one)
    chosen_extended = ScatterElements<axis = 1>(no_marks, ids, ones)
    chosen_marks = Slice(chosen_extended, first_axis, expert_number_1, second_axis)
    chosen = Greater(chosen_marks, none)
    first_slot = Slice(ids, first_axis, first_only, second_axis)
    text_column = Unsqueeze(text, second_axis)
    first_text_slot = Where(text_column, first_slot, expert_number)
    is_first_text = Equal(first_text_slot, expert)
    keeps = Cast<to = 9>(keep_top1_text)
    reserved = And(is_first_text, keeps)
    free = Not(reserved)
    candidates = And(chosen, free)

    weighted_order = Constant<value = float {{{choice("order", "weighted_score")}}}>()
    is_weighted = Equal(order, weighted_order)
    units_real = Cast<to = 1>(units)
    row_weight = Mul(units_real, a_unit)
    row_weight_column = Unsqueeze(row_weight, second_axis)
    weighted_scores = Mul(probabilities, row_weight_column)
    priority = Where(is_weighted, weighted_scores, probabilities)
    last_of_all = Neg(one_number)
    key = Where(candidates, priority, last_of_all)
    key_by_expert = Transpose<perm = [1, 0]>(key)
    sorted_keys, sorted_rows = TopK<axis = 1>(key_by_expert, row_number_1)
    sorted_units = Gather(units, sorted_rows)
    sorted_candidate = GreaterOrEqual(sorted_keys, no_number)
    text_first_order = Constant<value = float {{{choice("order", "text_first")}}}>()
    is_text_first = Equal(order, text_first_order)
    goes_first = And(text, is_text_first)
    sorted_first = Gather(goes_first, sorted_rows)
    sorted_second = Not(sorted_first)
    early_candidates = And(sorted_candidate, sorted_first)
    late_candidates = And(sorted_candidate, sorted_second)

    unit_column = Unsqueeze(units, second_axis)
    reserved_marks = Cast<to = 7>(reserved)
    reserved_weights = Mul(reserved_marks, unit_column)
    reserved_sums = ReduceSum<keepdims = 0>(reserved_weights, first_axis)
    reserved_numbers = ReduceSum<keepdims = 0>(reserved_marks, first_axis)
    start_units = Unsqueeze(reserved_sums, second_axis)
    start_tokens = Unsqueeze(reserved_numbers, second_axis)
    start_taken = Less(sorted_keys, last_of_all)
    limit_column = Unsqueeze(limits, second_axis)
"""
    + _turn("early", "start")
    + _turn("late", "early")
    + """
    taken_marks = Cast<to = 7>(late_taken)
    no_marks_by_expert = Mul(sorted_rows, none)
    admitted_by_expert = ScatterElements<axis = 1>(no_marks_by_expert, sorted_rows, taken_marks)
    admitted_marks = Transpose<perm = [1, 0]>(admitted_by_expert)
    admitted_in_order = Greater(admitted_marks, none)
    admitted = Or(admitted_in_order, reserved)
    held_units = Squeeze(late_units, second_axis)
    held_tokens = Squeeze(late_tokens, second_axis)
"""
)
