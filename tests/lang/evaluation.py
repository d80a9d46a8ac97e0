"""Run frontend code on arrays: `evaluate` for one expression, `launch` for a kernel."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter import Buffer, execute, run_function
from tilewright.lang import Block, Function, with_shape
from tilewright.lang.context import Options, building
from tilewright.lang.dtypes import dtype, ir_scalar, parse_type
from tilewright.lang.frontend import device_function, generate
from tilewright.lang.frontend.generator import Generator
from tilewright.lang.ops.control import RETURN
from tilewright.lang.values import flatten, tensor

Array = NDArray[Any]


def evaluate(
    function: Callable[..., Any], *operands: tuple[dtype, Array], options: Options | None = None
) -> list[Array]:
    """The tensors that a function of tensors returns, for arrays in the storage dtype of the type they come with."""
    types = [with_shape(ir_scalar(type_), array.shape) for type_, array in operands]
    body = Block(types)
    generator = Generator()
    generator.builder.at_end(body)
    generator.active.append(device_function(evaluate))  # the function that is walked now: what is called is no kernel
    with building(generator.builder, generator, options):
        leaves, _ = flatten(
            function(*(tensor(value, type_) for value, (type_, _) in zip(body.arguments, operands, strict=True)))
        )
        results = [leaf.handle for leaf in leaves]
        generator.builder.create(RETURN, results)
    generator.module.add(Function("evaluated", body, tuple(value.type for value in results)))
    return [each[0] for each in run_function(generator.module, "evaluated", [array[None] for _, array in operands])]


def launch(
    kernel: Callable[..., Any],
    grid: tuple[int, int, int],
    arguments: Mapping[str, tuple[str, Any]],
    options: Options | None = None,
    **constants: Any,
) -> None:
    """Compile a kernel, and run it on arrays (`("*fp32", array)`) and numbers (`("i32", 3)`)."""
    signature = {name: parse_type(text) for name, (text, _) in arguments.items()}
    module = generate(device_function(kernel), signature, constants, options=options)
    values = [
        Buffer.of(name, value) if isinstance(value, np.ndarray) else value for name, (_, value) in arguments.items()
    ]
    execute(module, values, grid)
