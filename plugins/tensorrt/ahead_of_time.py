"""A Triton kernel compiled for a GPU that need not be here, for TensorRT to launch by itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...core import EngineError
from .description import Launch, Operator, Variant

# No documented way asks TensorRT for more shared memory than every program may have, so pipelines
# are made as short as that takes.
SHARED_BYTES = 48 * 1024
# The first PTX version that has each GPU: the driver of the device must understand it.
_PTX_VERSIONS = {"10.0": 86, "10.3": 88, "11.0": 90, "12.0": 87, "12.1": 88}
_OLDEST_PTX = 80

_POINTERS = {
    "float16": "*fp16",
    "bfloat16": "*bf16",
    "float32": "*fp32",
    "int32": "*i32",
    "int64": "*i64",
    "bool": "*u8",
}


@dataclass(frozen=True)
class CompiledKernel:
    """``ptx`` takes exactly the arguments of the launch; ``threads`` of a block."""

    name: str
    ptx: str
    threads: int
    shared_bytes: int


def compile_kernel(
    operator: Operator, launch: Launch, variant: Variant, floating: str, capability: str
) -> CompiledKernel:
    """Compile for ``capability`` (``"11.0"``); no GPU and no driver is needed.

    Raises:
        EngineError: Triton cannot, or the kernel needs more memory than a block may have.
    """
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, CompilationError
    from triton.compiler import compile as compile_source

    function = launch.function()
    source = ASTSource(function, *_signature(operator, launch, variant, floating, function))
    target = GPUTarget("cuda", int(capability.replace(".", "")), 32)
    options = dict(variant.options)
    options["ptx_version"] = _PTX_VERSIONS.get(capability, _OLDEST_PTX)
    where = f"{operator.name}{launch.name} for compute capability {capability}"
    stages = options.pop("num_stages", 3)
    for count in range(stages, 0, -1):
        try:
            compiled = compile_source(source, target, {**options, "num_stages": count})
        except (CompilationError, RuntimeError) as error:
            raise EngineError(f"Triton cannot compile {where}: {_first_line(error)}") from error
        if compiled.metadata.shared <= SHARED_BYTES:
            break
    else:
        raise EngineError(f"{where} needs {compiled.metadata.shared} bytes of shared memory")
    metadata = compiled.metadata
    return CompiledKernel(
        metadata.name,
        without_scratch(compiled.asm["ptx"], metadata.name, len(launch.arguments)),
        metadata.num_warps * 32,
        metadata.shared,
    )


def _signature(
    operator: Operator, launch: Launch, variant: Variant, floating: str, function: Any
) -> tuple[dict[str, str], dict[str, int], dict[tuple[int], list[list[object]]]]:
    """Types of parameters, values of constants, and that every tensor begins at 16 bytes: TensorRT
    aligns to 256."""
    types: dict[str, str] = {}
    aligned: dict[tuple[int], list[list[object]]] = {}
    for place, (name, argument) in enumerate(
        zip(function.arg_names, launch.arguments, strict=False)
    ):
        if isinstance(argument, str):
            types[name] = _POINTERS[operator.ports[argument].element(floating)]
            aligned[(place,)] = [["tt.divisibility", 16]]
        else:
            types[name] = "i32"
    types |= dict.fromkeys(variant.constants, "constexpr")
    return types, dict(variant.constants), aligned


def without_scratch(ptx: str, name: str, arguments: int) -> str:
    """``ptx`` without the parameters that Triton appends for its own launcher.

    TensorRT passes what the plugin declares, no more: a kernel with further parameters would read
    beyond the end of the list. They are for scratch memory that kernels here do not use.

    Raises:
        EngineError: the kernel does use one.
    """
    head = re.search(rf"\.entry {name}\((.*?)\)", ptx, re.DOTALL)
    assert head is not None, name
    parameters = head[1].strip().split(",\n")
    for parameter in parameters[arguments:]:
        own = parameter.split()[-1]
        if len(re.findall(rf"\b{own}\b", ptx)) > 1:
            raise EngineError(f"the kernel {name} asks Triton's launcher for scratch memory")
    kept = ",\n".join(part.rstrip() for part in parameters[:arguments])
    return f"{ptx[: head.start(1)]}\n\t{kept}\n{ptx[head.end(1) :]}"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
