"""A test case, what came out of running it, and a text form of the first that needs nothing but the case itself."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lang import Function, Module, PointerType, ScalarType, Type, element_of, parse_module, print_module

from .storage import Array, to_array, to_codes

Grid = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A module and what to run of it, made to exercise one op row.

    With a `function`, that function of the module runs on `arguments`: for a parameter of shape s an array of shape
    (programs, *s), or (1, *s) where all programs get the same; the results are its results, (programs, *s) each.
    Without, the kernel runs on the `grid`: a pointer parameter gets a vector of its pointee (a buffer), a scalar one
    an array of shape (); the results are the buffers afterwards.
    """

    row: str
    module: Module
    arguments: tuple[Array, ...]
    grid: Grid = (1, 1, 1)
    function: str = ""
    #: Kernels in which atomics meet: any order explains the results, see `oracles.orders`.
    unordered: bool = False

    @property
    def entry(self) -> Function:
        """What runs."""
        return self.module.functions[self.function] if self.function else self.module.kernel

    @property
    def elements(self) -> tuple[ScalarType, ...]:
        """The element types of the arguments."""
        return elements(self.entry, not self.function)

    @property
    def programs(self) -> int:
        """How many programs run."""
        x, y, z = self.grid
        return max((len(array) for array in self.arguments), default=1) if self.function else x * y * z


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What running a case gave.

    `stopped` is "" when it ran to its end, else the kind of fault: "memory", "assert" or "step". `results` are empty
    then. `output` is what the kernel printed.
    """

    results: tuple[Array, ...] = ()
    stopped: str = ""
    output: str = ""

    def bits(self) -> tuple[object, ...]:
        """A value that two outcomes share exactly when they agree in every bit."""
        shown = tuple((array.shape, array.dtype.str, array.tobytes()) for array in self.results)
        return shown, self.stopped, self.output


@dataclass(frozen=True, slots=True)
class ArgumentText:
    """One argument in the text form: the shape of its array, and its codes in row-major order, in hexadecimal."""

    shape: tuple[int, ...]
    codes: str

    @classmethod
    def of(cls, array: Array, element: ScalarType) -> ArgumentText:
        return cls(array.shape, " ".join(f"{code:x}" for code in to_codes(array, element)))

    def array(self, element: ScalarType) -> Array:
        return to_array([int(code, 16) for code in self.codes.split()], element, self.shape)


@dataclass(frozen=True, slots=True)
class CaseText:
    """A case as text: its IR and the bits of its arguments. `repr` gives Python source that makes it again."""

    row: str
    ir: str
    arguments: tuple[ArgumentText, ...]
    grid: Grid = (1, 1, 1)
    function: str = ""
    unordered: bool = False

    @classmethod
    def of(cls, case: Case) -> CaseText:
        """The text of a case."""
        pairs = zip(case.arguments, case.elements, strict=True)
        arguments = tuple(ArgumentText.of(array, element) for array, element in pairs)
        return cls(case.row, print_module(case.module), arguments, case.grid, case.function, case.unordered)

    def case(self) -> Case:
        """The case that the text describes. Raises ParseError when the IR is not the language's."""
        module = parse_module(self.ir)
        entry = module.functions[self.function] if self.function else module.kernel
        pairs = zip(self.arguments, elements(entry, not self.function), strict=True)
        arrays = tuple(text.array(element) for text, element in pairs)
        return Case(self.row, module, arrays, self.grid, self.function, self.unordered)


def array_element(type_: Type, buffers: bool) -> ScalarType:
    """The element type of the array that stands for a parameter: of a pointer the pointee, where it is a buffer."""
    element = element_of(type_)
    return element.pointee if buffers and isinstance(type_, PointerType) else element  # type: ignore[union-attr]


def elements(entry: Function, buffers: bool) -> tuple[ScalarType, ...]:
    """The element types of the arrays that stand for a function's parameters; `buffers` for a kernel."""
    return tuple(array_element(parameter.type, buffers) for parameter in entry.arguments)
