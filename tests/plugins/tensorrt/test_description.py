"""Sizes as expressions, and operators as chains of launches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgevlm.plugins.functions import FUNCTIONS
from edgevlm.plugins.tensorrt.description import Launch, Operator, Port
from edgevlm.plugins.tensorrt.experts import MOE_EXPERTS
from edgevlm.plugins.tensorrt.macs import MACS_CAPACITY
from edgevlm.plugins.tensorrt.operators import OPERATORS
from edgevlm.plugins.tensorrt.sere import SERE_ROUTING
from edgevlm.plugins.tensorrt.sizes import Size, ceil_divide, minimum, size
from edgevlm.plugins.tensorrt.sources import source_digest, source_files


@given(r=st.integers(1, 5000), k=st.integers(1, 8))
def test_sizes_are_computed_when_they_are_known(r: int, k: int) -> None:
    slots = size("R") * "k"
    sizes = {"R": r, "k": k}
    assert slots.number(sizes) == r * k
    assert ceil_divide(slots, 64).number(sizes) == -(-r * k // 64)
    assert ((slots - 1) // 7 + 2).number(sizes) == (r * k - 1) // 7 + 2
    assert minimum(slots, "k").number(sizes) == min(r * k, k)
    assert slots.symbols == {"R", "k"}


def test_there_is_a_plugin_for_every_function_and_of_the_same_shape() -> None:
    assert set(OPERATORS.names()) == set(FUNCTIONS.names())
    for name in OPERATORS.names():
        operator, function = OPERATORS.get(name), FUNCTIONS.get(name)()
        assert operator.name == name
        assert [port.name for port in operator.inputs] == list(function.input)
        assert len(operator.outputs) == len(function.output)


def test_symbols_come_from_the_inputs() -> None:
    shapes = [(7, 64), (7, 4), (7, 4), (16, 64, 192), (16, 96, 64)]
    assert MOE_EXPERTS.solve(shapes) == {"R": 7, "H": 64, "k": 4, "N": 16, "I": 96}
    assert MOE_EXPERTS.statics == ("H", "I", "N", "k")
    # A stage that has the twofold extent alone.
    assert MOE_EXPERTS.chain()[1].solve([(7, 64), (16, 64, 192), (28,)])["I"] == 96


def test_a_chain_passes_on_what_later_stages_read() -> None:
    chain = MOE_EXPERTS.chain()
    names = ["MoeExpertsPlan", "MoeExpertsGateUp", "MoeExpertsDown", "MoeExpertsCombine"]
    assert [stage.name for stage in chain] == names
    assert [stage.attributes for stage in chain] == [("N",), ("k",), (), ("N",)]
    known = {port.name for port in MOE_EXPERTS.inputs}
    for stage in chain:
        assert {port.name for port in stage.inputs} <= known
        known |= {port.name for port in stage.outputs}
        assert stage.scratch == ()
    assert chain[0].types == ()  # it has no floating tensor
    assert chain[1].types == MOE_EXPERTS.types
    (single,) = SERE_ROUTING.chain()
    assert (single.name, single.attributes) == ("SereRouting", ())


def test_what_changes_tensors_in_place_is_no_chain() -> None:
    with pytest.raises(ValueError, match="MacsCapacity changes tensors in place"):
        MACS_CAPACITY.chain()


def _launch(**changes: object) -> Launch:
    usual: dict[str, object] = {
        "name": "",
        "kernel": "module:kernel",
        "arguments": ("x", size("R"), "y"),
        "writes": ("y",),
        "variants": lambda sizes, floating: (),
    }
    return Launch(**(usual | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("launch", "outputs", "message"),
    [
        (_launch(arguments=("x", "z", "y")), ("R",), r"reads \{'z'\} before"),
        (_launch(writes=()), ("R",), "before they are written"),
        (_launch(), ("R", "N"), r"nothing tells \{'N'\}"),
        (_launch(uses=("N",)), ("R",), r"nothing tells \{'N'\}"),
        (_launch(arguments=("x",), writes=()), ("R",), r"nobody writes \{'y'\}"),
    ],
)
def test_a_description_that_does_not_hold_together(
    launch: Launch, outputs: tuple[Size | str, ...], message: str
) -> None:
    x, y = Port.of("x", "T", "R"), Port.of("y", "T", *outputs)
    with pytest.raises(AssertionError, match=message):
        Operator("Test", (x,), (y,), (launch,))


def test_sources_are_the_files_that_decide() -> None:
    names = {path.name for path in source_files(MOE_EXPERTS)}
    assert {"plan.py", "gate_up.py", "down.py", "combine.py", "kernels.py", "experts.py"} <= names
    for operator in (MOE_EXPERTS, SERE_ROUTING, MACS_CAPACITY):
        kernels = {launch.module for launch in operator.launches}
        assert kernels <= set(operator.sources)
    assert source_digest(MOE_EXPERTS) != source_digest(SERE_ROUTING)
