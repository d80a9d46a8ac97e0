"""What atomics mean: each lane acts on its address indivisibly, programs in order, row-major inside a program.

Where several lanes of one op meet at an address they act one after the other in that order, and each gets the value
that the one before it left. Float additions round once each. Minima and maxima of floats go by the order of their
bits, as the hardware's integer atomics give it: negative before positive, -0.0 below +0.0, NaN beyond infinity on the
side of its sign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.lang import FloatType, Operation, PointerType, element_of

from .. import numerics
from ..batch import Batch
from ..values import Array, BatchValue, compact, dense, stretched, widened
from .lanes import Access, Lanes, lanes
from .memory import load, store
from .tables import Prepare, Runner

#: (old values, operands...) -> new values.
Step = Callable[..., Array]
#: (the value before, operands... of lanes that meet there in order) -> the value before and after each: one more.
Scan = Callable[..., Array]


@dataclass(frozen=True, slots=True)
class Kind:
    """What an atomic does to one value, on many distinct addresses at once and many times on one."""

    step: Step
    scan: Scan


def accumulated(ufunc: np.ufunc, signed: bool = True) -> Kind:
    """An integer operation that NumPy can accumulate."""

    def read(x: Array) -> Array:
        return x.view(f"{'i' if signed else 'u'}{x.dtype.itemsize}")

    def step(old: Array, value: Array) -> Array:
        return ufunc(read(old), read(value)).view(old.dtype)

    def scan(before: Array, values: Array) -> Array:
        chain = read(np.concatenate((before, values)))
        return ufunc.accumulate(chain, dtype=chain.dtype).view(before.dtype)

    return Kind(step, scan)


def _order(x: Array) -> Array:
    """Integers in the order of the bits of floats; its own inverse."""
    bits = x.view(f"i{x.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def by_bits(ufunc: np.ufunc) -> Kind:
    """A minimum or maximum of floats in the order of their bits."""
    plain = accumulated(ufunc)

    def step(old: Array, value: Array) -> Array:
        return _order(plain.step(_order(old), _order(value))).view(old.dtype)

    def scan(before: Array, values: Array) -> Array:
        return _order(plain.scan(_order(before), _order(values))).view(before.dtype)

    return Kind(step, scan)


def float_add(access: Access, fmt: str) -> Kind:
    """An addition that rounds once; a NaN result is the canonical one."""

    def step(old: Array, value: Array) -> Array:
        return access.to_memory(numerics.add(access.from_memory(old), access.from_memory(value), fmt))

    @np.errstate(all="ignore")
    def scan(before: Array, values: Array) -> Array:
        total = np.add.accumulate(access.from_memory(np.concatenate((before, values))))
        after = access.to_memory(numerics.round_to(numerics.decode(total[1:], fmt), fmt))
        return np.concatenate((before, after))

    return Kind(step, scan)


EXCHANGE = Kind(lambda old, value: value, lambda before, values: np.concatenate((before, values)))


def _swap(old: Array, expected: Array, value: Array) -> Array:
    return np.where(old == expected, value, old)


def _swap_scan(before: Array, expected: Array, value: Array) -> Array:
    seen = before.tolist()
    for want, new in zip(expected.tolist(), value.tolist(), strict=True):
        seen.append(new if seen[-1] == want else seen[-1])
    return np.array(seen, before.dtype)


COMPARE_AND_SWAP = Kind(_swap, _swap_scan)

INTEGER_KINDS: dict[str, Kind] = {
    "add_i": accumulated(np.add),
    "min_s": accumulated(np.minimum),
    "min_u": accumulated(np.minimum, signed=False),
    "max_s": accumulated(np.maximum),
    "max_u": accumulated(np.maximum, signed=False),
    "min_f": by_bits(np.minimum),
    "max_f": by_bits(np.maximum),
    "and": accumulated(np.bitwise_and),
    "or": accumulated(np.bitwise_or),
    "xor": accumulated(np.bitwise_xor),
    "xchg": EXCHANGE,
}


def act(kind: Kind, group: Lanes, *operands: Array) -> tuple[Array, bool]:
    """Let the lanes act in order. The value that each found, and whether any bit of memory changed."""
    memory, _, index = group
    if len(index) < 2 or bool((index[1:] > index[:-1]).all()):
        old = memory[index]
        return old, _write(memory, index, old, kind.step(old, *operands))
    order = np.argsort(index, kind="stable")
    there = index[order]
    starts = np.flatnonzero(np.concatenate(([True], there[1:] != there[:-1])))
    places = there[starts]
    before = memory[places]
    found, final = _in_turn(kind, before, starts, [operand[order] for operand in operands])
    old = np.empty_like(found)
    old[order] = found
    return old, _write(memory, places, before, final)


def _write(memory: Array, index: Array, old: Array, new: Array) -> bool:
    """Write to distinct places; whether any bit changed."""
    memory[index] = new
    bits = f"u{memory.dtype.itemsize}"
    return bool((old.view(bits) != new.view(bits)).any())


def _in_turn(kind: Kind, before: Array, starts: Array, operands: list[Array]) -> tuple[Array, Array]:
    """Lanes sorted by address, in order within each: what each found, and what is left at each address.

    Either address by address, or the first lane of every address, then the second, and so on: the shorter loop of the
    two.
    """
    total = len(operands[0])
    counts = np.diff(np.append(starts, total))
    found, final = np.empty(total, before.dtype), before.copy()
    if len(starts) <= counts.max():
        for place, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
            mine = slice(start, start + count)
            passed = kind.scan(before[place : place + 1], *(operand[mine] for operand in operands))
            found[mine], final[place] = passed[:-1], passed[-1]
        return found, final
    for turn in range(int(counts.max())):
        places = np.flatnonzero(counts > turn)
        lane = starts[places] + turn
        found[lane] = final[places]
        final[places] = kind.step(final[places], *(operand[lane] for operand in operands))
    return found, final


def performed(access: Access, kind: Kind) -> Runner:
    """Run a kind of atomic on pointers, operands and perhaps a mask; the old values, 0 where masked off."""

    def run(batch: Batch, pointer: BatchValue, mask: BatchValue | None, *operands: BatchValue) -> Array:
        old = np.zeros((batch.count, *access.shape), access.memory)
        flat = old.reshape(-1)
        values = [widened(access.to_memory(dense(operand)), batch.count).reshape(-1) for operand in operands]
        for group in list(lanes(access, batch, pointer, mask, batch.count)):
            found, changed = act(kind, group, *(value[group.number] for value in values))
            flat[group.number] = found
            batch.memory.version += changed
        return access.from_memory(old)

    return run


def atomic_rmw(operation: Operation) -> Runner:
    """Replace each value by its combination with the operand; the old values."""
    access = Access.of(operation, writes=True)
    name = str(operation.attributes["kind"])
    element = element_of(operation.operands[0].type)
    assert isinstance(element, PointerType)
    if name == "add_f":
        assert isinstance(element.pointee, FloatType)
        kind = float_add(access, element.pointee.name)
    else:
        kind = INTEGER_KINDS[name]
    perform = performed(access, kind)
    return lambda batch, pointer, value, mask=None: perform(batch, pointer, mask, value)


def atomic_cas(operation: Operation) -> Runner:
    """Replace each value whose bits are the expected ones; the old values."""
    access = Access.of(operation, writes=True)
    bits = np.dtype(f"u{access.memory.itemsize}")
    as_bits = Access(operation, access.root, access.shape, bits, bits, writes=True)
    perform = performed(as_bits, COMPARE_AND_SWAP)

    def run(batch: Batch, pointer: BatchValue, expected: BatchValue, value: BatchValue) -> Array:
        old = perform(batch, pointer, None, dense(expected).view(bits), dense(value).view(bits))
        return old.view(access.value)

    return run


def atomic_poll(operation: Operation) -> Runner:
    """One look at each address: whether the expected value is there. The executor looks again until it is."""
    look = load(operation)

    def run(batch: Batch, pointer: BatchValue, expected: BatchValue, timeout: BatchValue | None = None) -> Array:
        seen, wanted = dense(look(batch, pointer)), dense(expected)
        return stretched(compact(seen) == compact(wanted), seen.shape[1:])

    return run


ATOMICS: dict[str, Prepare] = {
    "atomic_rmw": atomic_rmw,
    "atomic_cas": atomic_cas,
    "atomic_load": load,
    "atomic_store": store,
    "atomic_poll": atomic_poll,
}
