"""Whatever `tl` functions are given, the answer is a result or an error of the catalogue: never a bare exception."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lang.sandbox import Sandbox, sandbox
from tilewright.lang import language as tl
from tilewright.lang import semantic
from tilewright.lang.context import Options
from tilewright.lang.dtypes import dtype, pointer_type
from tilewright.lang.errors import CompilationError
from tilewright.lang.language.builtin import is_builtin

PLAIN: list[Any] = [
    None, "a", "tf32", 3, -1, 0, 8, 2**40, 2**70, True, 0.5, float("nan"), (), (4,), (4, 8), (0, 1), (1, 0), (1.5,),
    (None,), [1, 2], {}, slice(None), object(), tl.float16, tl.int8, tl.void, pointer_type(tl.float32), tl.load,
    tl.maximum, tl.cdiv, tl.PropagateNan.ALL, tl.math,
]  # fmt: skip
TENSORS: list[tuple[dtype, tuple[int, ...]]] = [
    (tl.float32, (4,)), (tl.int32, (4, 8)), (tl.int1, (4,)), (tl.int32, ()), (tl.float8e5, (4, 4)), (tl.uint64, (4,)),
    (tl.float32, (4, 2)), (tl.float16, (4, 4)), (pointer_type(tl.float32), ()), (pointer_type(tl.int32), (4,)),
    (pointer_type(tl.int1), (4,)), (pointer_type(tl.float8e5, const=True), (4, 8)),
]  # fmt: skip


def block(box: Sandbox) -> Any:
    base, size = box.tile(pointer_type(tl.float16)), box.tile(tl.int32)
    return tl.make_block_ptr(base, (size, 8), (8, 1), (0, 0), (4, 8), (1, 0))


Maker = Callable[[Sandbox], Any]
MAKERS: list[Maker] = [
    *(lambda box, value=value: value for value in PLAIN),
    *(lambda box, type_=type_, shape=shape: box.tile(type_, *shape) for type_, shape in TENSORS),
    lambda box: (box.tile(tl.int32), 1),
    lambda box: (box.tile(tl.float32, 4), box.tile(tl.int8, 4)),
    block,
]
NAMES = [name for name in tl.__all__ if is_builtin(getattr(tl, name)) and name != "static_print"]


def counts(function: Callable[..., Any]) -> list[int]:
    """How many arguments to try: as few as needed, one more, all."""
    parameters = inspect.signature(function).parameters.values()
    needed = sum(each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters)
    return [needed, needed + 1, len(parameters)]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(st.data())
def test_arguments_of_any_kind(name: str, data: st.DataObject) -> None:
    function = getattr(tl, name)
    count = data.draw(st.sampled_from(counts(function)))
    with sandbox(Options(debug=data.draw(st.booleans()))) as box:
        arguments = [data.draw(st.sampled_from(MAKERS))(box) for _ in range(count)]
        try:
            function(*arguments)
        except CompilationError as error:
            assert str(error).startswith("error: ")


@settings(max_examples=300)
@given(st.sampled_from(["+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "<", "=="]), st.data())
def test_operands_of_any_kind(symbol: str, data: st.DataObject) -> None:
    with sandbox() as box:
        a, b = (data.draw(st.sampled_from(MAKERS))(box) for _ in range(2))
        operate = semantic.compare if symbol in ("<", "==") else semantic.binary
        try:
            operate(symbol, a, b)
        except CompilationError as error:
            assert str(error).startswith("error: ")
