"""Linear layouts: which element of a tile each register, lane and warp (or memory offset) holds.

A layout is a linear map over F2 between products of named dimensions whose sizes are powers of two, and an
XOR offset: `L(x) = offset ^ XOR of columns[i] over the set bits i of x`. A *distributed* layout maps the
inputs (register, lane, warp, block) to the outputs (dim0, dim1, ...) of a tile; a *memory* layout maps an
offset to them. An input bit whose column depends on earlier ones holds a replica.

The layouts that kernels use are built in `tile_layouts.py`; `layout_text.py` specifies and reads the text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from . import f2
from . import layout_dims as dims
from .layout_dims import Dims, LayoutError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Names = Mapping[str, str]


@dataclass(frozen=True, slots=True, repr=False)
class LinearLayout:
    """A linear map over F2, plus an XOR offset, between products of named power-of-two dimensions.

    `ins` and `outs` pair names with sizes. `columns` holds the flat image of each input bit, the first input
    dimension's lowest bit first. Build layouts with `from_bases`, `identity`, `zeros` and products of them;
    the plain constructor takes flat data and checks it. Raises LayoutError for data that is no layout.
    """

    ins: Dims
    outs: Dims
    columns: tuple[int, ...]
    offset: int = 0

    def __post_init__(self) -> None:
        dims.check_dims(self.ins, "input")
        dims.check_dims(self.outs, "output")
        if len(self.columns) != (bits := dims.bit_count(self.ins)):
            raise LayoutError(f"{len(self.columns)} columns for {bits} input bits")
        limit = math.prod(self.shape)
        for flat in (*self.columns, self.offset):
            if not 0 <= flat < limit:
                raise LayoutError(f"flat point {flat} lies outside the {limit} points of the output")

    @classmethod
    def from_bases(
        cls,
        bases: Mapping[str, Sequence[Sequence[int]]],
        outs: Mapping[str, int],
        offset: Sequence[int] | None = None,
    ) -> LinearLayout:
        """Build a layout from the image of each input bit, a vector with one component for each output.

        >>> print(LinearLayout.from_bases({"lane": [(0, 1), (1, 0)]}, {"dim0": 2, "dim1": 2}))
        #linear<lane=[[0, 1], [1, 0]] -> [dim0:2, dim1:2]>
        """
        sizes = tuple((name, index(size)) for name, size in outs.items())
        dims.check_dims(sizes, "output")
        ins = tuple((name, 1 << len(vectors)) for name, vectors in bases.items())
        columns = tuple(dims.pack_vector(sizes, vector) for vectors in bases.values() for vector in vectors)
        return cls(ins, sizes, columns, 0 if offset is None else dims.pack_vector(sizes, offset))

    @classmethod
    def identity(cls, size: int, in_dim: str, out_dim: str) -> LinearLayout:
        """Map input i to output i.

        >>> LinearLayout.identity(4, "lane", "dim0").apply({"lane": 3})
        {'dim0': 3}
        """
        bits = max(size, 1).bit_length() - 1
        return cls(((in_dim, size),), ((out_dim, size),), tuple(1 << i for i in range(bits)))

    @classmethod
    def zeros(cls, size: int, in_dim: str, out_dim: str, out_size: int = 1) -> LinearLayout:
        """Map every input to output 0: `size` replicas of one element.

        >>> print(LinearLayout.zeros(4, "lane", "dim0"))
        #linear<lane=[[0], [0]] -> [dim0:1]>
        """
        return cls(((in_dim, size),), ((out_dim, out_size),), (0,) * (max(size, 1).bit_length() - 1))

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the output dimensions."""
        return tuple(size for _, size in self.outs)

    @property
    def in_names(self) -> tuple[str, ...]:
        """Names of the input dimensions."""
        return tuple(name for name, _ in self.ins)

    @property
    def out_names(self) -> tuple[str, ...]:
        """Names of the output dimensions."""
        return tuple(name for name, _ in self.outs)

    @property
    def bases(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """The image of each input bit, by input dimension: what `from_bases` takes.

        >>> LinearLayout.identity(4, "lane", "dim0").bases
        {'lane': ((1,), (2,))}
        """
        return dict(dims.images(self.ins, self.outs, self.columns))

    def __str__(self) -> str:
        return dims.show_map(self.ins, self.outs, self.columns, self.offset)

    def __repr__(self) -> str:
        return f"parse_layout({str(self)!r})"

    # Evaluation

    @overload
    def apply(self, point: Mapping[str, int]) -> dict[str, int]: ...
    @overload
    def apply(self, point: Mapping[str, NDArray[np.integer[Any]]]) -> dict[str, NDArray[np.int64]]: ...
    def apply(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Map one point (ints) or many (arrays of ints that broadcast together), by input dimension.

        Raises LayoutError when a dimension is missing or unknown, or a component lies outside its dimension.

        >>> LinearLayout.from_bases({"lane": [(0, 1), (1, 1)]}, {"dim0": 2, "dim1": 2}).apply({"lane": 3})
        {'dim0': 1, 'dim1': 0}
        """
        dims.check_names(tuple(point), self.ins, "input")
        if missing := [name for name in self.in_names if name not in point]:
            raise LayoutError(f"no value for input dimension {missing[0]!r}")
        values = {name: dims.checked(name, size, point[name]) for name, size in self.ins}
        arrays = [value for value in values.values() if not isinstance(value, int)]
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        flat = np.full(shape, self.offset, np.int64) if arrays else self.offset
        for name, bits in dims.positions(self.ins).items():
            for i, position in enumerate(bits):
                flat = flat ^ (values[name] >> i & 1) * self.columns[position]
        return dims.unpack(self.outs, flat)

    # Algebra

    def sublayout(self, ins: Sequence[str], outs: Sequence[str]) -> LinearLayout:
        """Keep the given dimensions, in the given order; inputs left out are held at zero.

        >>> layout = LinearLayout.identity(2, "lane", "dim0") * LinearLayout.identity(4, "warp", "dim1")
        >>> print(layout.sublayout(["warp"], ["dim1", "dim0"]))
        #linear<warp=[[1, 0], [2, 0]] -> [dim1:4, dim0:2]>
        """
        dims.check_names(ins, self.ins, "input")
        dims.check_names(outs, self.outs, "output")
        new_ins, new_outs = dims.select(self.ins, ins), dims.select(self.outs, outs)
        kept = dims.low_bits(self.outs, new_outs)
        columns = tuple(f2.gather(self.columns[p], kept) for p in dims.low_bits(self.ins, new_ins))
        return LinearLayout(new_ins, new_outs, columns, f2.gather(self.offset, kept))

    def transpose(self, ins: Sequence[str] | None = None, outs: Sequence[str] | None = None) -> LinearLayout:
        """Reorder the input dimensions, the output dimensions, or both; values by name stay the same.

        >>> layout = LinearLayout.from_bases({"lane": [(0, 1), (1, 0)]}, {"dim0": 2, "dim1": 2})
        >>> print(layout.transpose(outs=["dim1", "dim0"]))
        #linear<lane=[[1, 0], [0, 1]] -> [dim1:2, dim0:2]>
        """
        moved = self.sublayout(self.in_names if ins is None else ins, self.out_names if outs is None else outs)
        if len(moved.ins) != len(self.ins) or len(moved.outs) != len(self.outs):
            raise LayoutError("a transposition names each dimension once")
        return moved

    def rename(self, ins: Names | None = None, outs: Names | None = None) -> LinearLayout:
        """Give new names to dimensions.

        >>> print(LinearLayout.identity(2, "lane", "dim0").rename(ins={"lane": "warp"}))
        #linear<warp=[[1]] -> [dim0:2]>
        """
        dims.check_names(tuple(ins or ()), self.ins, "input")
        dims.check_names(tuple(outs or ()), self.outs, "output")
        new_ins = tuple(((ins or {}).get(name, name), size) for name, size in self.ins)
        new_outs = tuple(((outs or {}).get(name, name), size) for name, size in self.outs)
        return replace(self, ins=new_ins, outs=new_outs)

    def reshape_ins(self, ins: Mapping[str, int]) -> LinearLayout:
        """Split the same inputs into other dimensions, the first of which varies fastest.

        >>> print(LinearLayout.identity(4, "lane", "dim0").reshape_ins({"register": 2, "lane": 2}))
        #linear<register=[[1]], lane=[[2]] -> [dim0:4]>
        """
        dims.check_total(self.ins, tuple(ins.items()), "input")
        return replace(self, ins=tuple(ins.items()))

    def reshape_outs(self, outs: Mapping[str, int]) -> LinearLayout:
        """Split the same outputs into other dimensions in row-major order, as a reshape of the tile does.

        >>> print(LinearLayout.identity(4, "lane", "dim0").reshape_outs({"dim0": 2, "dim1": 2}))
        #linear<lane=[[0, 1], [1, 0]] -> [dim0:2, dim1:2]>
        """
        dims.check_total(self.outs, tuple(outs.items()), "output")
        last_first = self.transpose(outs=self.out_names[::-1])
        return replace(last_first, outs=tuple(outs.items())[::-1]).transpose(outs=tuple(outs))

    def window(self, start: Mapping[str, int], sizes: Mapping[str, int]) -> LinearLayout:
        """Restrict inputs to `sizes` elements from `start` on, counted from zero again: a view of a buffer.

        Dimensions not in `sizes` stay whole. A start must be a multiple of its size: adding it is then XOR.

        >>> print(LinearLayout.identity(8, "dim0", "offset").window({"dim0": 4}, {"dim0": 2}))
        #linear<dim0=[[1]] -> [offset:8] ^ [4]>
        """
        dims.check_names(tuple({**start, **sizes}), self.ins, "input")
        new_ins = tuple((name, sizes.get(name, size)) for name, size in self.ins)
        dims.check_dims(new_ins, "window")
        first = {name: start.get(name, 0) for name in self.in_names}
        for name, size in new_ins:
            if size > dict(self.ins)[name] or first[name] % size:
                raise LayoutError(f"no aligned window of {size} elements at {first[name]} in {name!r}")
        columns = tuple(self.columns[p] for p in dims.low_bits(self.ins, new_ins))
        return replace(self, ins=new_ins, columns=columns, offset=dims.pack(self.outs, self.apply(first)))

    def compose(self, inner: LinearLayout) -> LinearLayout:
        """Give the map x -> self(inner(x)). Outputs of `inner` are, by name, the inputs of this layout.

        An output may be smaller than the input it feeds. Raises LayoutError when names or sizes do not fit.

        >>> swap = LinearLayout.from_bases({"lane": [(2,), (1,)]}, {"lane": 4})
        >>> print(LinearLayout.identity(4, "lane", "dim0").compose(swap))
        #linear<lane=[[2], [1]] -> [dim0:4]>
        """
        sizes = dict(self.ins)
        if set(inner.out_names) != set(sizes) or any(size > sizes[name] for name, size in inner.outs):
            raise LayoutError(f"outputs {dims.show(inner.outs)} do not fit the inputs {dims.show(self.ins)}")
        place = dims.low_bits(self.ins, inner.outs)
        columns = tuple(f2.multiply(self.columns, f2.scatter(column, place)) for column in inner.columns)
        offset = self.offset ^ f2.multiply(self.columns, f2.scatter(inner.offset, place))
        return LinearLayout(inner.ins, self.outs, columns, offset)

    def product(self, high: LinearLayout) -> LinearLayout:
        """Put two layouts side by side (direct sum), also written `low * high`.

        In a dimension that both have, the bits of `high` come above those of this layout.

        >>> print(LinearLayout.identity(2, "register", "dim0") * LinearLayout.identity(2, "lane", "dim0"))
        #linear<register=[[1]], lane=[[2]] -> [dim0:4]>
        """
        ins, outs = dims.merge(self.ins, high.ins), dims.merge(self.outs, high.outs)
        below, above = dims.low_bits(outs, self.outs), dims.high_bits(outs, high.outs)
        images = [f2.scatter(c, below) for c in self.columns] + [f2.scatter(c, above) for c in high.columns]
        places = dims.low_bits(ins, self.ins) + dims.high_bits(ins, high.ins)
        columns = tuple(image for _, image in sorted(zip(places, images, strict=True)))
        offset = f2.scatter(self.offset, below) | f2.scatter(high.offset, above)
        return LinearLayout(ins, outs, columns, offset)

    __mul__ = product

    def divide(self, low: LinearLayout) -> LinearLayout | None:
        """Find q with `low * q == self` up to the order of dimensions; None when this is no such product.

        The quotient has every dimension of this layout, some perhaps of size 1.

        >>> pair = LinearLayout.identity(2, "register", "dim0")
        >>> print((pair * LinearLayout.identity(2, "lane", "dim0")).divide(pair))
        #linear<register=[], lane=[[1]] -> [dim0:2]>
        """
        if not (dims.divides(low.ins, self.ins) and dims.divides(low.outs, self.outs)):
            return None
        ins, outs = dims.quotient(self.ins, low.ins), dims.quotient(self.outs, low.outs)
        above = dims.high_bits(self.outs, outs)
        columns = tuple(f2.gather(self.columns[p], above) for p in dims.high_bits(self.ins, ins))
        quotient = LinearLayout(ins, outs, columns, f2.gather(self.offset, above))
        matches = low.product(quotient).transpose(self.in_names, self.out_names) == self
        return quotient if matches else None

    def quotient(self, name: str) -> LinearLayout | None:
        """Drop a dimension on which the map is the identity and that nothing else touches, else give None.

        In a conversion map, a hardware dimension that drops out needs no communication.

        >>> layout = LinearLayout.identity(2, "lane", "lane") * LinearLayout.identity(2, "warp", "warp")
        >>> print(layout.quotient("warp"))
        #linear<lane=[[1]] -> [lane:2]>
        """
        dims.check_names([name], self.ins, "input")
        dims.check_names([name], self.outs, "output")
        others = [[n for n in names if n != name] for names in (self.in_names, self.out_names)]
        rest = self.sublayout(*others)
        whole = rest * LinearLayout.identity(dict(self.ins)[name], name, name)
        return rest if whole.transpose(self.in_names, self.out_names) == self else None

    def pseudo_invert(self) -> LinearLayout:
        """Give an affine P with L(P(L(x))) == L(x): an inverse as far as there is one.

        Of a surjective layout it is a right inverse that picks the replica whose free variables are zero; of
        an injective one it is a left inverse.

        >>> replicated = LinearLayout.zeros(2, "lane", "dim0") * LinearLayout.identity(2, "warp", "dim0")
        >>> print(replicated.pseudo_invert())
        #linear<dim0=[[0, 1]] -> [lane:2, warp:2]>
        """
        mask, units = (1 << len(self.columns)) - 1, [1 << i for i in range(dims.bit_count(self.outs))]
        echelon = f2.eliminate([*self.columns, *units])  # with the unit vectors every equation has a solution
        columns = tuple((echelon.solve(unit) or 0) & mask for unit in units)
        return LinearLayout(self.outs, self.ins, columns, f2.multiply(columns, self.offset))

    def invert(self) -> LinearLayout:
        """Give the inverse. Raises LayoutError when the layout is not bijective.

        >>> print(LinearLayout.from_bases({"offset": [(1,), (3,)]}, {"dim0": 4}).invert())
        #linear<dim0=[[1], [3]] -> [offset:4]>
        """
        if not self.is_bijective:
            sizes = f"{dims.bit_count(self.ins)} input bits, {dims.bit_count(self.outs)} output bits, rank {self.rank}"
            raise LayoutError(f"the layout is not invertible: {sizes}")
        return self.pseudo_invert()

    def invert_and_compose(self, target: LinearLayout) -> LinearLayout:
        """Give the conversion map X with target(X(x)) == self(x): the place in `target` of what x holds here.

        An input bit with the same image in both stays where it is, so nothing moves that need not; for the
        rest, free variables are zero: the lowest replica. For where to *read* each slot of a new layout, call
        `new.invert_and_compose(old)`. Raises LayoutError when outputs differ or `target` lacks an element.

        >>> row = LinearLayout.identity(2, "lane", "dim0") * LinearLayout.identity(2, "warp", "dim1")
        >>> column = LinearLayout.identity(2, "warp", "dim0") * LinearLayout.identity(2, "lane", "dim1")
        >>> print(row.invert_and_compose(column))
        #linear<lane=[[1, 0]], warp=[[0, 1]] -> [warp:2, lane:2]>
        """
        if sorted(self.outs) != sorted(target.outs):
            raise LayoutError(f"outputs {dims.show(self.outs)} and {dims.show(target.outs)} differ")
        target = target.transpose(outs=self.out_names)
        echelon = f2.eliminate(target.columns)
        theirs = dims.positions(target.ins)
        columns: list[int | None] = []
        for name, bits in dims.positions(self.ins).items():
            twins = theirs.get(name, range(0))
            for i, column in enumerate(self.columns[bits.start : bits.stop]):
                stays = i < len(twins) and target.columns[twins[i]] == column
                columns.append(1 << twins[i] if stays else echelon.solve(column))
        offset = echelon.solve(self.offset ^ target.offset)
        if offset is None or None in columns:
            raise LayoutError(f"not invertible: {target} does not hold every element of {self}")
        return LinearLayout(self.ins, target.ins, tuple(c for c in columns if c is not None), offset)

    # Rank and replicas

    @property
    def rank(self) -> int:
        """Rank of the linear part: log2 of the number of distinct outputs."""
        return f2.rank(self.columns)

    @property
    def is_surjective(self) -> bool:
        """Whether every output has an input."""
        return self.rank == dims.bit_count(self.outs)

    @property
    def is_injective(self) -> bool:
        """Whether different inputs have different outputs: no replicas."""
        return self.rank == len(self.columns)

    @property
    def is_bijective(self) -> bool:
        """Whether the layout is injective and surjective."""
        return self.is_injective and self.is_surjective

    def free_variables(self) -> dict[str, int]:
        """Mask, for each input dimension, the bits whose column is zero or depends on earlier columns.

        The inputs with all those bits zero hold each element of the image once.

        >>> layout = LinearLayout.identity(2, "lane", "dim0") * LinearLayout.zeros(4, "lane", "dim0")
        >>> layout.free_variables()
        {'lane': 6}
        """
        return dims.unpack(self.ins, ~f2.eliminate(self.columns).pivots)

    def kernel(self) -> tuple[dict[str, int], ...]:
        """Give a basis of the inputs that the linear part maps to zero: the directions between replicas.

        >>> LinearLayout.from_bases({"lane": [(1,), (1,)]}, {"dim0": 2}).kernel()
        ({'lane': 3},)
        """
        return tuple(dims.unpack(self.ins, vector) for vector in f2.eliminate(self.columns).kernel)

    def image(self) -> tuple[dict[str, int], ...]:
        """Give the reduced basis of what the linear part reaches: equal for layouts that reach the same.

        >>> LinearLayout.from_bases({"lane": [(3,), (2,)]}, {"dim0": 4}).image()
        ({'dim0': 1}, {'dim0': 2})
        """
        return tuple(dims.unpack(self.outs, vector) for vector in f2.rref(self.columns))
