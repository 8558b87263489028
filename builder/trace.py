"""Trace a torch module to an ONNX graph without its weights ever existing."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import onnx
import onnx_ir as ir
import onnxscript.optimizer
import torch
from onnx_ir.tensor_adapters import from_torch_dtype
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from ..core.manifest import TensorSpec

OPSET = 24
_NETWORK = "network."


class _Flat(nn.Module):
    """A network behind a flat list of tensors, the form an ONNX graph has."""

    def __init__(self, network: nn.Module, forward: Callable[..., tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.network = network
        self._forward = forward

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return self._forward(self.network, *tensors)


def trace(
    build: Callable[[], nn.Module],
    forward: Callable[..., tuple[Tensor, ...]],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    dtype: torch.dtype,
) -> onnx.GraphProto:
    """Return the graph of ``forward(build(), *inputs)``.

    Parameters and tensors are fake while tracing: they have shapes and no storage, so the cost
    does not depend on the model's size. Initializers keep the module's parameter names and refer
    to no file yet.

    Args:
        build: constructs the network; called with ``dtype`` as the default dtype.
        inputs, outputs: names, dtypes and symbolic shapes, in the order of ``forward``'s.
    """
    names = _symbols(inputs)
    dims = {name: torch.export.Dim(name) for name in names}
    sizes = {name: 2 + order for order, name in enumerate(names)}  # tracing specialises 0 and 1
    with _quiet(), torch.no_grad(), FakeTensorMode():
        with _default_dtype(dtype):
            network = _Flat(build(), forward).eval()
        example = tuple(
            torch.zeros(
                [_resolve(size, sizes) for size in spec.shape], dtype=getattr(torch, spec.dtype)
            )
            for spec in inputs
        )
        dynamic = tuple(
            {i: _resolve(size, dims) for i, size in enumerate(spec.shape) if isinstance(size, str)}
            for spec in inputs
        )
        program = torch.export.export(network, example, dynamic_shapes=(dynamic,), strict=False)
        exported = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=OPSET,
            optimize=False,
            verbose=False,
            input_names=[spec.name for spec in inputs],
            output_names=[spec.name for spec in outputs],
        )
    assert exported is not None
    graph = _to_proto(exported.model)
    for values, specs in ((graph.input, inputs), (graph.output, outputs)):
        del values[:]
        values.extend(_value_info(spec) for spec in specs)
    return graph


def _to_proto(model: ir.Model) -> onnx.GraphProto:
    weights = list(model.graph.initializers.items())
    # Folding turns shape arithmetic into constants and split sequences into Split. It would
    # look into the weights, which are fake, so they lose their values before and gain a
    # placeholder after.
    for _, value in weights:
        value.const_value = None
    onnxscript.optimizer.fold_constants(model)
    onnxscript.optimizer.remove_unused_nodes(model)
    for name, value in weights:
        assert value.dtype is not None and value.shape is not None
        value.const_value = ir.ExternalTensor(
            "unbound", 0, 0, value.dtype, shape=value.shape, name=name
        )
    graph = ir.to_proto(model).graph
    # Source traces and guessed shapes: most of the bytes, and nothing a backend needs.
    del graph.value_info[:], graph.metadata_props[:]
    for node in graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
        node.input[:] = [name.removeprefix(_NETWORK) for name in node.input]
    for tensor in graph.initializer:
        tensor.name = tensor.name.removeprefix(_NETWORK)
        del tensor.metadata_props[:]
    return graph


def _symbols(specs: Sequence[TensorSpec]) -> list[str]:
    sizes = (size for spec in specs for size in spec.shape if isinstance(size, str))
    return list(dict.fromkeys(size.rpartition("*")[2] for size in sizes))


def _resolve(size: int | str, symbols: dict[str, Any]) -> Any:
    """A dimension of a spec, ``n``, ``"symbol"`` or ``"n*symbol"``, with its symbol replaced."""
    if isinstance(size, int):
        return size
    factor, _, name = size.rpartition("*")
    return int(factor) * symbols[name] if factor else symbols[name]


def _value_info(spec: TensorSpec) -> onnx.ValueInfoProto:
    kind = from_torch_dtype(getattr(torch, spec.dtype))
    return onnx.helper.make_tensor_value_info(spec.name, int(kind), spec.shape)


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hold back the exporter's notes about its own internals and absent optional packages."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
