"""From captured functions to a module of tile IR: the kernel, and each device function once for each specialisation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..constants import constexpr, unwrap
from ..context import Options, building
from ..dtypes import dtype, ir_scalar, pointer_type, show
from ..errors.base import CompilationError, CompilerBug
from ..errors.operations import RegionResult
from ..errors.syntax import (
    CallsTooDeep,
    ConstexprParameter,
    EndlessRecursion,
    KernelReturnsValue,
    MismatchedReturns,
    NestedTooDeeply,
)
from ..ir import AttributeValue, Block, Builder, Function, Location, Module
from ..ops.control import CALL, RETURN, YIELD
from ..values import Branch, TensorLeaf, Tree, describe, flatten, tensor, tensor_leaves, unflatten, with_article
from ..verifier import verify
from . import calls, loops
from .branches import walk_block
from .function import DeviceFunction, Parameter
from .joins import handles, inside
from .reproducer import write_reproducer
from .tidy import tidy
from .walker import Walker, as_tuple, is_runtime

#: How deep calls may nest: no more than Python's own stack has room for.
MAX_DEPTH = 40
#: The modules that say what expressions and statements mean; importing them fills the tables.
MEANINGS = (calls, loops)


class Specialisation:
    """One device function for given argument types and compile-time arguments."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.result: Tree | None = None  # None while its body is being walked


class Generator:
    """Makes one module. Device functions are emitted when first called."""

    def __init__(self) -> None:
        self.module = Module()
        self.builder = Builder()
        self.specialisations: dict[tuple[DeviceFunction, Tree], Specialisation] = {}
        self.active: list[DeviceFunction] = []

    def call(self, function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """What a device function returns: compile-time results as they are, the rest by a `call` operation."""
        bound = bind(function, arguments, keywords)
        leaves, tree = flatten(tuple(bound.values()))
        made = self._specialise(function, tuple(bound), tree)
        assert made.result is not None
        types = made.function.result_types
        operation = self.builder.create(CALL, handles(leaves), {"callee": made.function.name}, types)
        return unflatten(made.result, operation.results)

    def _specialise(self, function: DeviceFunction, names: tuple[str, ...], tree: Tree) -> Specialisation:
        made = self.specialisations.get((function, tree))
        if made is not None and made.result is not None:
            return made
        if made is not None:
            raise EndlessRecursion(function=function.name, limit=MAX_DEPTH)
        if len(self.active) >= MAX_DEPTH:
            raise CallsTooDeep(function=function.name, limit=MAX_DEPTH)
        made = Specialisation(self.new_function(function, names, tree))
        self.specialisations[function, tree] = made
        outer = self.builder.location
        try:
            with inside(self.builder, made.function.body):
                value = returned(self.walk(function, names, tree, made.function.body))
                leaves, result = flatten(value)
                self.builder.location = made.function.location
                self.builder.create(RETURN, handles(leaves))
        except CompilationError as error:
            error.closed = True
            raise
        self.builder.location = outer
        made.function.result_types = tuple(leaf.handle.type for leaf in leaves)
        made.result = result
        return made

    def new_function(self, function: DeviceFunction, names: Sequence[str], tree: Tree) -> Function:
        """An empty function of the module, with an argument for each tensor in the parameters."""
        assert isinstance(tree, Branch)
        hints = _argument_names(names, tree)
        body = Block([leaf.ir_type for leaf in tensor_leaves(tree)], hints)
        location = function.source.location(function.source.tree)
        return self.module.add(Function(self._free_name(function.name), body, location=location))

    def _free_name(self, name: str) -> str:
        plain = re.sub(r"\W", "_", name)
        taken = self.module.functions
        numbered = (f"{plain}_{number}" for number in range(1, len(taken) + 2))
        return plain if plain not in taken else next(each for each in numbered if each not in taken)

    def walk(
        self, function: DeviceFunction, names: Sequence[str], tree: Tree, block: Block, caller: Location | None = None
    ) -> Walker:
        """Emit the body of a function at the builder's place; `returned` says what it returns."""
        values = unflatten(tree, block.arguments)
        walker = Walker(self, self.builder, function, caller)
        for name, value in zip(names, values, strict=True):
            walker.bind(name, value, function.source.tree.args)
        self.active.append(function)
        walk_block(walker, function.source.tree.body)
        self.active.pop()
        return walker

    def inline_region(self, function: Callable[..., Any], types: Sequence[dtype]) -> Block:
        """A block whose arguments are scalars of `types`, ended by a `yield` of what `function` returns on them.

        Raises RegionResult when these do not have the types that the first half of `types` names.
        """
        block = Block([ir_scalar(type_) for type_ in types])
        scalars = [tensor(value, type_) for value, type_ in zip(block.arguments, types, strict=True)]
        caller = self.builder.location
        outer = self.builder.block
        self.builder.at_end(block)
        if isinstance(function, DeviceFunction):
            bound = bind(function, scalars, {})
            _, tree = flatten(tuple(bound.values()))
            try:
                value = returned(self.walk(function, tuple(bound), tree, block, caller))
            except CompilationError as error:
                error.closed = True
                raise
        else:
            value = function(*scalars)
        self.builder.location = caller
        leaves = self._region_results(function, value, types[: len(types) // 2])
        self.builder.create(YIELD, handles(leaves))
        if outer is not None:
            self.builder.at_end(outer)
        return block

    def _region_results(self, function: Any, value: Any, types: Sequence[dtype]) -> list[tensor]:
        parts = as_tuple(value)
        values = (value,) if parts is None else parts
        leaves = [x for x in values if isinstance(x, tensor) and not x.shape]
        if len(leaves) != len(values) or [x.dtype for x in leaves] != list(types):
            expected = ", ".join(with_article(f"{show(type_)} scalar") for type_ in types)
            name = getattr(function, "__name__", "the function")
            raise RegionResult(function=name, found=describe(value), expected=expected)
        return leaves


def _argument_names(names: Sequence[str], tree: Branch) -> list[str]:
    """A name for each tensor: that of its parameter, numbered where there are several in a tuple. No two are alike."""
    taken = set(names)
    hints: list[str] = []
    for name, child in zip(names, tree.children, strict=True):
        leaves = tensor_leaves(child)
        for index in range(len(leaves)):
            hint = name if isinstance(child, TensorLeaf) else f"{name}_{index}"
            while hint != name and hint in taken:
                hint += "_"
            taken.add(hint)
            hints.append(hint)
    return hints


def bind(function: DeviceFunction, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with their values. Raises BadArguments, ConstexprParameter."""
    bound = function.bind(arguments, keywords)
    for parameter in function.parameters:
        value = bound[parameter.name]
        if parameter.is_constexpr and is_runtime(value):
            raise ConstexprParameter(function=function.name, parameter=parameter.name, found=describe(value))
        if parameter.is_const:
            bound[parameter.name] = _read_only(value)
    return bound


def _read_only(value: Any) -> Any:
    """A value with each pointer in it as a const one."""
    leaves, tree = flatten(value)
    return unflatten(_const_tree(tree), handles(leaves))


def _const_tree(tree: Tree) -> Tree:
    """A tree with each pointer type in it as a const one."""
    if isinstance(tree, Branch):
        return Branch(tree.kind, tuple(map(_const_tree, tree.children)))
    if isinstance(tree, TensorLeaf) and isinstance(tree.dtype, pointer_type):
        return TensorLeaf(pointer_type(tree.dtype.element_ty, tree.dtype.address_space, const=True), tree.shape)
    return tree


def returned(walker: Walker) -> Any:
    """What a function returns that has been walked to its end. Raises MismatchedReturns."""
    exits = walker.scope.exits
    if exits.returned is False:
        return None
    if exits.value is None or exits.returned is True:
        return exits.value
    error = MismatchedReturns(function=walker.function.name, first=describe(exits.value), second="None")
    raise _at_return(walker, error)


def _at_return(walker: Walker, error: CompilationError) -> CompilationError:
    return error.at(walker.source.span(walker.scope.exits.node or walker.source.tree))


def generate(
    function: DeviceFunction,
    signature: Mapping[str, Any],
    constants: Mapping[str, Any],
    attributes: Mapping[str, Mapping[str, AttributeValue]] | None = None,
    options: Options | None = None,
) -> Module:
    """Compile a kernel to verified tile IR.

    `signature` gives the type of each runtime parameter (a dtype or pointer_type, or a tuple of them and of
    compile-time values), `constants` the value of each compile-time one; together they name every parameter.
    `attributes` are promises on parameters, such as `{"x": {"divisibility": 16}}`. Raises a CompilationError for a
    mistake in the kernel, CompilerBug, with a file that shows it again, for one of ours.
    """
    try:
        return _generate(function, signature, constants, attributes or {}, options)
    except CompilationError as error:
        raise error.with_traceback(None) from error.__cause__
    except CompilerBug as bug:
        bug.reproducer = write_reproducer(function, signature, constants, attributes or {}, bug.what)
        raise


def _generate(
    function: DeviceFunction,
    signature: Mapping[str, Any],
    constants: Mapping[str, Any],
    attributes: Mapping[str, Mapping[str, AttributeValue]],
    options: Options | None,
) -> Module:
    generator = Generator()
    try:
        with building(generator.builder, generator, options):
            _generate_kernel(generator, function, signature, constants, attributes)
        for each in generator.module.functions.values():
            tidy(each)
    except RecursionError:
        raise _too_deep(generator.active[-1] if generator.active else function) from None
    except (CompilationError, CompilerBug):
        raise
    except Exception as error:
        where = generator.builder.location
        raise CompilerBug(f"{type(error).__name__}: {error} (compiling {where})") from error
    verify(generator.module)
    return generator.module


def _too_deep(function: DeviceFunction) -> CompilationError:
    return NestedTooDeeply().at(function.source.span(function.source.tree))


def _generate_kernel(
    generator: Generator,
    function: DeviceFunction,
    signature: Mapping[str, Any],
    constants: Mapping[str, Any],
    attributes: Mapping[str, Mapping[str, AttributeValue]],
) -> None:
    names = [parameter.name for parameter in function.parameters]
    trees = [_parameter_tree(parameter, signature, constants) for parameter in function.parameters]
    tree = Branch(tuple, tuple(trees))
    made = generator.new_function(function, names, tree)
    generator.builder.at_end(made.body)
    generator.builder.location = made.location
    made.argument_attributes = [
        dict(attributes.get(name, {})) for name, child in zip(names, trees, strict=True) for _ in tensor_leaves(child)
    ]
    walker = generator.walk(function, names, tree, made.body)
    value = returned(walker)
    if value is not None:
        raise _at_return(walker, KernelReturnsValue(function=function.name, found=describe(value)))
    generator.builder.location = made.location
    generator.builder.create(RETURN)


def _parameter_tree(parameter: Parameter, signature: Mapping[str, Any], constants: Mapping[str, Any]) -> Tree:
    if parameter.name in constants:
        return flatten(constexpr(constants[parameter.name]))[1]
    tree = _type_tree(signature[parameter.name])
    return _const_tree(tree) if parameter.is_const else tree


def _type_tree(type_: Any) -> Tree:
    """The tree of a parameter: a place for a scalar, or for each part of a tuple."""
    if isinstance(type_, dtype):
        return TensorLeaf(type_, ())
    parts = as_tuple(type_)
    if parts is not None:
        return Branch(type(parts), tuple(_type_tree(part) for part in parts))
    return flatten(unwrap(type_))[1]
