"""Products of warp groups in flight: `wgmma`, its fences, groups and waits.

A product reads shared memory and accumulates at any moment from the instruction until a wait covers it. Until then
nobody may touch its accumulators, or write the shared memory it reads. A register that was written since the warp
group's last `wgmma.fence` must not be used. The registers of a left operand are read at once: the ISA forbids to change
them meanwhile, but compilers (Triton) do, and the assembler finds others for what is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..access import Access
from ..collective import GROUP, warps_of
from ..errors import BarrierError
from ..fragments import Fragment, accumulator, left
from ..frame import WARP, spread
from ..liveness import reads, writes
from ..order import SLOTS
from ..products import Product as Multiply
from ..spaces import Rows
from ..syntax import Instruction
from ..types import CARRIERS, Array
from .checks import Place, Work

if TYPE_CHECKING:
    from ..frame import Frame, Index
    from ..site import Site
    from .engines import Engines

Threads = NDArray[np.intp]

_SOON = 0.25
"""How likely a product is done before the next basic block runs."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What all products of an instruction have in common: shape, widths, how to multiply, which registers.

    left: the registers of the left operand, none if it is in shared memory. negative: whether a and b are negated.
    """

    site: Site
    columns: int
    depth: int
    width: int
    result: int
    multiply: dict[str, Multiply]
    accumulators: tuple[int, ...]
    left: tuple[int, ...]
    negative: tuple[bool, bool]
    access: Access


@dataclass(slots=True, eq=False)
class Product:
    """One instruction of some warp groups, each a row: their numbers, and their operands in shared memory.

    group: of each, which of its warp group's groups it belongs to. a: the elements [rows, depth] of each in shared
    memory, or of all that were in registers; b likewise [columns, depth]. adds: whether it adds to the accumulators.
    work: what is checked about each. done: which have been computed, waited: which also waited for.
    """

    kind: Kind
    warpgroups: Threads
    group: NDArray[np.int64]
    a: list[Place] | Array
    b: list[Place]
    adds: NDArray[np.bool_]
    work: list[Work]
    done: NDArray[np.bool_]
    waited: NDArray[np.bool_]


class Products:
    """The products of a frame that have not been waited for. Warp groups are numbered through the frame."""

    def __init__(self, frame: Frame, engines: Engines) -> None:
        self._frame, self._engines = frame, engines
        self._each = frame.threads // GROUP
        self._groups = np.zeros(max(1, frame.blocks * self._each), np.int64)
        self._pending: list[Product] = []
        self._fenced: dict[int, list[Array | None]] = {}

    def warpgroups(self, index: Index) -> Threads:
        """The warp groups of threads, which are all there."""
        first = self._frame.indices(index)[::GROUP]
        return first // self._frame.threads * self._each + first % self._frame.threads // GROUP

    def threads(self, warpgroups: Threads) -> Threads:
        """The threads of warp groups."""
        first = warpgroups // self._each * self._frame.threads + warpgroups % self._each * GROUP
        return (first[:, None] + np.arange(GROUP)).reshape(-1)

    def fence(self, index: Index) -> None:
        """What warp groups have written to registers, their products may use."""
        if self._frame.watch is not None:
            for warpgroup in self.warpgroups(index).tolist():
                self._fenced[warpgroup] = list(self._frame.registers)

    def issue(self, kind: Kind, index: Index, a: list[Place] | None, b: list[Place], adds: NDArray[np.bool_]) -> None:
        """Warp groups start a product each."""
        frame, warpgroups = self._frame, self.warpgroups(index)
        if frame.watch is not None:
            for warpgroup in warpgroups.tolist():
                self._check_fence(kind, warpgroup)
                self._check_registers(kind, warpgroup)
        work = [self._work(kind, warpgroup, [*(a[n : n + 1] if a else ()), b[n]])
                for n, warpgroup in enumerate(warpgroups.tolist())] if frame.watch is not None else []  # fmt: skip
        left = self._left(kind, self.threads(warpgroups)) if a is None else a
        done = np.zeros(len(warpgroups), np.bool_)
        self._pending.append(
            Product(kind, warpgroups, self._groups[warpgroups].copy(), left, b, adds, work, done, done.copy())
        )
        self._fly()

    def commit(self, index: Index) -> None:
        """What warp groups have started since their last commit becomes a group."""
        self._groups[self.warpgroups(index)] += 1

    def wait(self, index: Index, leave: int) -> None:
        """Warp groups wait for all their groups but the last `leave`."""
        waits = np.zeros(len(self._groups), np.bool_)
        waits[self.warpgroups(index)] = True
        for product in self._pending:
            covered = waits[product.warpgroups] & (product.group < self._groups[product.warpgroups] - leave)
            covered &= ~product.waited
            if covered.any():
                self._compute(product, covered & ~product.done)
                product.waited |= covered
                self._release(product, covered)
        self._pending = [product for product in self._pending if not product.waited.all()]
        self._fly()

    def drift(self) -> None:
        """By the luck of the seed some products are done, those of a warp group in their order."""
        random = self._engines.random
        assert random is not None
        for product in self._pending:
            if random.random() >= _SOON:
                break
            self._compute(product, ~product.done)

    def refuse(self, instruction: Instruction, index: Index) -> None:
        """Raise BarrierError if an instruction touches accumulators of a product in flight."""
        touched = reads(instruction) | writes(instruction)
        for product in self._pending:
            kind = product.kind
            bad = touched.intersection(kind.accumulators)
            if not bad:
                continue
            threads = self.threads(product.warpgroups[~product.waited])
            here = np.intersect1d(threads, self._frame.indices(index))
            if len(here):
                self._refused(kind, instruction, min(bad), int(here[0]))

    def _refused(self, kind: Kind, instruction: Instruction, register: int, thread: int) -> None:
        program, frame = self._frame.program, self._frame
        name, who = program.registers[register].name, frame.thread_of(thread)
        what = f"`{instruction.opcode}` touches `{name}`, which a `wgmma.mma_async` in flight uses"
        line = kind.site.location.line
        what += f" (line {line}): it needs `wgmma.wait_group`; thread {who}"
        raise BarrierError(what, program.location_of(instruction), frame.block_of(thread))

    def _fly(self) -> None:
        self._frame.flying = frozenset[int]().union(
            *(product.kind.accumulators for product in self._pending if not product.waited.all())
        )

    # --- what is checked when a product starts ---

    def _check_fence(self, kind: Kind, warpgroup: int) -> None:
        fenced = self._fenced.get(warpgroup)
        threads = self.threads(np.array([warpgroup]))
        if fenced is None:
            what = "no `wgmma.fence` before the first product"
            raise kind.site.fault(BarrierError, what, self._frame, int(threads[0]))
        for register in (*kind.accumulators, *kind.left):
            now, then = self._frame.registers[register], fenced[register]
            if now is then:
                continue
            if now is None or then is None or (_some(now, threads) != _some(then, threads)).any():
                name = self._frame.program.registers[register].name
                what = f"`{name}` was written after the last `wgmma.fence`"
                raise kind.site.fault(BarrierError, what, self._frame, int(threads[0]))

    def _check_registers(self, kind: Kind, warpgroup: int) -> None:
        """Products in flight may share accumulators only if they are the same ones of the same shape."""
        for product in self._pending:
            if warpgroup not in product.warpgroups[~product.waited]:
                continue
            other = product.kind
            same = other.accumulators == kind.accumulators and other.result == kind.result
            shared = set() if same else set(other.accumulators) & set(kind.accumulators)
            shared |= set(other.accumulators) & set(kind.left)
            if shared:
                thread = int(self.threads(np.array([warpgroup]))[0])
                self._refused(other, kind.site.instruction, min(shared), thread)

    def _work(self, kind: Kind, warpgroup: int, places: Sequence[Place]) -> Work:
        """The reading of shared memory: each of the four warps must know of what stands there."""
        watch = self._frame.watch
        assert watch is not None
        threads = self.threads(np.array([warpgroup]))
        rows = watch.order.known(threads)
        row = rows.reshape(GROUP // WARP, WARP, -1).max(1).min(0)
        work = Work(watch, int(threads[0]), row)
        for place in places:
            work.reads(kind.access, place)
        return work

    def _release(self, product: Product, covered: NDArray[np.bool_]) -> None:
        """Waited for: others that learn of the warp group may write again what its products have read."""
        watch = self._frame.watch
        if watch is None:
            return
        for row in np.flatnonzero(covered).tolist():
            warpgroup = int(product.warpgroups[row])
            block, number = divmod(warpgroup, self._each)
            slot = block * SLOTS + number
            product.work[row].end_reads(watch.order.engine(slot))
            watch.order.advance(self.threads(np.array([warpgroup])), slot)

    # --- what a product computes ---

    def _compute(self, product: Product, rows: NDArray[np.bool_]) -> None:
        """Multiply and accumulate for some warp groups."""
        if not rows.any():
            return
        kind, frame, chosen = product.kind, self._frame, np.flatnonzero(rows)
        threads = self.threads(product.warpgroups[chosen])
        tile = accumulator(16, kind.result)
        old = self._accumulated(kind, tile, threads, product.adds[chosen])
        b = np.stack([_elements(product.b[n], kind.columns, kind.depth) for n in chosen]).transpose(0, 2, 1)
        if isinstance(product.a, np.ndarray):
            a = product.a[chosen]
        else:
            a = np.stack([_elements(product.a[n], 64, kind.depth) for n in chosen])
        a, b = (_negated(x, kind.width) if flip else x for x, flip in zip((a, b), kind.negative, strict=True))
        new = kind.multiply[frame.launch.mma](np.ascontiguousarray(a), np.ascontiguousarray(b), old)
        self._spread(kind, tile, threads, new)
        product.done |= rows

    def _accumulated(self, kind: Kind, tile: Fragment, threads: Threads, adds: NDArray[np.bool_]) -> Array:
        """The accumulators [warp groups, 64, columns] as bits, zeros where nothing is added."""
        carrier, count = CARRIERS[kind.result], len(threads) // GROUP
        if not adds.any():
            return np.zeros((count, 64, kind.columns), carrier)
        registers = warps_of([self._register(r, threads) for r in kind.accumulators], len(threads))
        tiles = registers.reshape(len(registers), -1, tile.registers, WARP)
        matrices = tile.matrices(np.ascontiguousarray(tiles.reshape(-1, tile.registers, WARP)))
        whole = matrices.reshape(count, 4, -1, 16, 8).transpose(0, 1, 3, 2, 4).reshape(count, 64, kind.columns)
        return np.where(adds[:, None, None], whole, carrier.type(0))

    def _left(self, kind: Kind, threads: Threads) -> Array:
        fragment = left(16, kind.depth, kind.width)
        registers = warps_of([self._register(r, threads) for r in kind.left], len(threads))
        return fragment.matrices(registers).reshape(-1, 64, kind.depth)

    def _register(self, number: int, threads: Threads) -> Array:
        found = self._frame.registers[number]
        return np.zeros(len(threads), np.uint32) if found is None else _some(found, threads)

    def _spread(self, kind: Kind, tile: Fragment, threads: Threads, new: Array) -> None:
        """Write the accumulators, as if nobody had noticed: they are not what a fence is needed for."""
        frame, count = self._frame, len(new)
        tiles = new.reshape(count, 4, 16, -1, 8).transpose(0, 1, 3, 2, 4).reshape(-1, 16, 8)
        registers = tile.spread(np.ascontiguousarray(tiles)).reshape(4 * count, -1, WARP)
        index = None if len(threads) == frame.count else threads
        fences = [self._fenced[number] for number in self.warpgroups(threads).tolist() if number in self._fenced]
        for number, register in enumerate(kind.accumulators):
            frame.write(register, index, registers[:, number].reshape(-1), 32)
            for fenced in fences:
                fenced[register] = frame.registers[register]


def _some(register: Array, threads: Threads) -> Array:
    """A register of some threads."""
    return spread(register, len(threads)) if len(register) == 1 else register[threads]


def _elements(place: Place, rows: int, depth: int) -> Array:
    return place.view.take(place.position).reshape(rows, depth)


def _negated(x: Array, width: int) -> Array:
    return x ^ x.dtype.type(1 << width - 1)


def operand_place(rows: Rows, block: int, found: NDArray[np.int64], itemsize: int) -> Place:
    """Elements in the shared memory of a block of the frame, at addresses there."""
    view = rows.typed(np.dtype(f"u{itemsize}"))
    return Place(rows, view, (found.reshape(-1) + block * rows.stride) // itemsize)
