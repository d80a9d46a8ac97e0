"""Loops that load what they multiply, which is what software pipelining is for.

There are masks, addresses that are loaded themselves, stores and conditions in them, and they run as often as is
critical for the number of stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .accesses import Kernel, given
from .arrays import Parameter
from .numbers import FLOAT16, INT32, Number, literal
from .products import MOST_PRODUCTS, TYPES, Multiplication, along, fed, memory_type, multiply, options_of, row_major
from .reductions import compared
from .source import Expr, Shape

#: (M, N, K) of the products, those without matrix instructions among them.
SHAPES: tuple[tuple[tuple[int, int, int], int], ...] = (
    ((16, 16, 16), 6), ((16, 8, 32), 4), ((32, 16, 16), 4), ((32, 32, 32), 4), ((16, 32, 32), 3), ((64, 16, 16), 3),
    ((16, 64, 32), 2), ((4, 8, 16), 2), ((2, 2, 4), 1), ((8, 16, 8), 2), ((64, 32, 32), 1),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often a loop runs: its head, the variable that counts, one more than the most that this is, and whether it
    counts from 0 by 1."""

    head: str
    index: str
    bound: int
    plain: bool


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of the products: its array, of some type in memory, and that of the products.

    index: the variable that numbers the rows or columns of the result, and its extent. is_left: which side it is.
    inner_last: whether neighbours along K are neighbours in memory.
    """

    array: Parameter
    type: Number
    index: str
    extent: int
    is_left: bool
    inner_last: bool

    def offset(self, inner: str, depth: int) -> str:
        """The offsets of the tile, from the variable that numbers elements along K, of which there are `depth`."""
        mine, other = (along(axis, 2) for axis in ((0, 1) if self.is_left else (1, 0)))
        if self.inner_last:
            return f"{self.index}{mine} * {depth} + {inner}{other}"
        return f"{inner}{other} * {self.extent} + {self.index}{mine}"

    def step(self) -> int:
        """How far neighbours along K lie apart."""
        return 1 if self.inner_last else self.extent


def product(kernel: Kernel) -> None:
    """A product of any kind."""
    if kernel.choices.boolean(45) or not multiply(kernel):
        multiply_in_loop(kernel)


def multiply_in_loop(kernel: Kernel) -> None:
    """`total = tl.dot(a, b, total)` in a loop that loads a and b; the total is stored, or goes on as a variable."""
    kinds = kernel.choices.weighted(TYPES)
    stages = kernel.choices.sample((3, 2, 4, 5, 1))
    trips = kernel.choices.sample((stages, stages + 1, max(1, stages - 1), 1, 0, 2 * stages + 1))
    rounds = max(1, trips)
    fitting = [row for row in SHAPES if kernel.shared.programs * prod(row[0]) * rounds <= MOST_PRODUCTS]
    if kernel.shared.arrays > 1 and fitting:
        shape = kernel.choices.weighted(fitting)
        _Loop(kernel, kinds, shape, _rounds(kernel, stages, trips)).write()


def _rounds(kernel: Kernel, stages: int, trips: int) -> Rounds:
    """A loop that runs so often, known when compiling or not; seldom from another start, or by another step."""
    choices, name = kernel.choices, kernel.shared.fresh("t")
    start, step = choices.weighted((((0, 1), 8), ((1, 1), 1), ((0, 2), 1)))
    stop, end = start + step * trips, str(start + step * trips)
    if choices.boolean(60):
        end = kernel.shared.fresh("rounds")
        kernel.parameters.append(Parameter(end, INT32, (stop,), is_array=False))
    if not trips and choices.boolean():
        start += 2  # the bounds the wrong way round
    plain = (start, step) == (0, 1)
    bounds = end if plain else f"{start}, {end}, {step}"
    own = f"tl.range({bounds}, num_stages={stages})"
    head = f"for {name} in {own if choices.boolean(40) else f'range({bounds})'}:"
    return Rounds(head, name, start + step * max(0, trips - 1) + 1, plain)


class _Loop:
    """A loop under construction."""

    def __init__(self, kernel: Kernel, kinds: Multiplication, extents: Shape, rounds: Rounds) -> None:
        self.kernel = kernel
        self.choices = kernel.choices
        self.kinds = kinds
        self.m, self.n, self.k = extents
        self.rounds = rounds
        self.rows, self.columns, self.inner = (kernel.shared.fresh(name) for name in ("rows", "cols", "inner"))
        self.total = kernel.shared.fresh("v")
        self.depth = rounds.bound * self.k
        missing = self.choices.integer(0, self.k - 1) if self.choices.boolean(40) else 0
        #: How many elements along K there are, the rest being masked; "" where all of them are there.
        self.inside = str(self.depth - missing) if missing else ""

    def write(self) -> None:
        """All of its lines."""
        kernel, line = self.kernel, self.kernel.text.line
        for name, extent in ((self.rows, self.m), (self.columns, self.n), (self.inner, self.k)):
            line(f"{name} = tl.arange(0, {extent})")
        line(f"{self.total} = tl.zeros(({self.m}, {self.n}), {self.kinds.result})")
        sides = (
            self.side(self.rows, self.m, self.kinds.left, True),
            self.side(self.columns, self.n, self.kinds.right, False),
        )
        moving = self.rounds.plain and not self.inside and self.choices.boolean(35)
        if moving:
            for side in sides:
                line(f"p{side.array.name} = {side.array.name} + {side.offset(self.inner, self.depth)}")
        number = self.rounds.index if moving or not self.choices.boolean(25) else self.table()
        with kernel.block(self.rounds.head):
            if not moving:
                line(f"at_{self.inner} = {number} * {self.k} + {self.inner}")
            a, b = (self.loaded(side, moving) for side in sides)
            self.accumulate(a, b)
            if moving:
                for side in sides:
                    line(f"p{side.array.name} += {self.k * side.step()}")
            if kernel.shared.stores > 0 and self.choices.boolean(15):
                kernel.shared.stores -= 1
                self.store(f"{self.rounds.index} * {self.m * self.n} + ", self.rounds.bound)
        self.finish()

    def side(self, index: str, extent: int, type_: Number, is_left: bool) -> Operand:
        array = self.kernel.input(extent * self.depth, memory_type(self.kernel, type_))
        return Operand(array, type_, index, extent, is_left, self.choices.boolean(70 if is_left else 40))

    def table(self) -> str:
        """The number of the round whose matrices are taken, from memory."""
        array = Parameter(
            self.kernel.shared.fresh("x"), INT32,
            tuple(self.choices.integer(0, self.rounds.bound - 1) for _ in range(self.rounds.bound)),
        )  # fmt: skip
        self.kernel.parameters.append(array)
        return f"tl.load({array.name} + {self.rounds.index})"

    def loaded(self, side: Operand, moving: bool) -> str:
        """The name of an operand, loaded and cast."""
        inner = f"at_{self.inner}"
        where = f"p{side.array.name}" if moving else f"{side.array.name} + {side.offset(inner, self.depth)}"
        mask = f"({inner} < {self.inside}){along(1 if side.is_left else 0, 2)}" if self.inside else ""
        other = literal(self.choices, side.array.type) if mask else ""
        text = fed(self.kernel, f"tl.load({where}{given(mask=mask, other=other)})", side.array.type, side.type)
        name = self.kernel.shared.fresh("m")
        self.kernel.text.line(f"{name} = {text}")
        return name

    def accumulate(self, a: str, b: str) -> None:
        """Add the product, perhaps not in every round, to what may have been scaled."""
        options, total = options_of(self.choices, self.kinds, self.k), self.total
        if self.choices.boolean(15) and self.kinds.result != FLOAT16:
            self.kernel.text.line(f"{total} = {total} * 2")
        form = self.choices.weighted(
            ((f"{total} = tl.dot({a}, {b}, {total}{options})", 6), (f"{total} += tl.dot({a}, {b}{options})", 2))
        )
        if not self.choices.boolean(15):
            self.kernel.text.line(form)
            return
        with self.kernel.block(f"if {self.rounds.index} {self.choices.sample(('> 0', '% 2 == 0', '!= 1'))}:"):
            self.kernel.text.line(form)

    def store(self, before: str, count: int) -> None:
        """Store the total to a place of the program's own, one of so many."""
        array = self.kernel.output(self.kernel.frame.programs * count * self.m * self.n, self.kinds.result)
        place = row_major((self.m, self.n), (self.rows, self.columns))
        self.kernel.text.line(
            f"tl.store({array.name} + pid * {count * self.m * self.n} + {before}{place}, {self.total})"
        )

    def finish(self) -> None:
        """What becomes of the total: a variable if it is a tile of the kernel's shape, else stored, or summed up."""
        kernel, exact = self.kernel, self.kinds.result == INT32
        if kernel.shape == (self.m, self.n):
            kernel.declare(Expr(self.total, self.kinds.result, kernel.shape, None, exact))
        elif self.choices.boolean(30):
            axis = self.choices.integer(0, 1)
            kernel.let(Expr(f"tl.max(tl.sum({self.total}, {axis}), 0)", compared(self.kinds.result), (), None, exact))
        else:
            self.store("", 1)
