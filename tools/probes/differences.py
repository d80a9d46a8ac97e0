"""Results of an instruction on two machines, compared bit by bit: what differs, and of what kind."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.interpreter.numerics import FORMATS
from tilewright.interpreter.ptx.types import Array, PtxType

from .cases import Case, results


@dataclass(slots=True)
class Differences:
    """How many results differ, by kind, and the first of each kind: operands, what was found, what was wanted."""

    compared: int = 0
    kinds: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, str] = field(default_factory=dict[str, str])


def _elements(type_: PtxType, codes: Array) -> Array:
    """Each element of packed registers for itself, [threads, elements]."""
    if type_.lanes == 1:
        return codes.reshape(-1, 1)
    return np.ascontiguousarray(codes).view(f"u{type_.bits // type_.lanes // 8}").reshape(-1, type_.lanes)


def _nans(type_: PtxType, elements: Array) -> Array:
    row = FORMATS[type_.format]
    magnitude = elements & elements.dtype.type(row.sign_bit - 1)
    return magnitude > elements.dtype.type(row.max_code if row.inf_code is None else row.inf_code)


def compare(case: Case, operands: Sequence[Array], found: Array, want: Array) -> Differences:
    """What the kernels of a case wrote on two machines."""
    outcome = Differences()
    for result in results(case, len(operands[0])):
        type_, left, right = result.type, result.of(found), result.of(want)
        outcome.compared += len(left)
        if np.array_equal(left, right):
            continue
        kinds = _kinds(type_, left, right)
        for kind in np.unique(kinds[kinds != ""]).tolist():
            chosen = kinds == kind
            outcome.kinds[kind] += int(chosen.sum())
            at = int(np.argmax(chosen))
            shown = " ".join(f"{int(x[at]):x}" for x in operands)
            outcome.examples.setdefault(kind, f"{shown} -> {int(left[at]):x}, emulator {int(right[at]):x}")
    return outcome


def _kinds(type_: PtxType, left: Array, right: Array) -> Array:
    """The kind of each difference, "" for none; of packed registers the worst of their elements."""
    if type_.kind != "f":
        return np.where(left != right, "value", "")
    a, b = _elements(type_, left), _elements(type_, right)
    magnitude = a.dtype.type(FORMATS[type_.format].sign_bit - 1)
    wrong = a != b
    nan, zero = wrong & _nans(type_, a) & _nans(type_, b), wrong & ((a | b) & magnitude == 0)
    value = wrong & ~nan & ~zero
    return np.where(value.any(1), "value", np.where(zero.any(1), "zero sign", np.where(nan.any(1), "NaN bits", "")))


def digests(case: Case, octets: Array, count: int) -> str:
    """Digests of results: of their bits, and, where some are NaN, of the bits with all NaNs alike behind it."""
    exact, alike, some = hashlib.sha256(), hashlib.sha256(), False
    for result in results(case, count):
        codes = result.of(octets)
        exact.update(codes.tobytes())
        elements = _elements(result.type, codes)
        if result.type.kind == "f" and (nan := _nans(result.type, elements)).any():
            one = elements.dtype.type(FORMATS[result.type.format].sign_bit - 1)
            elements, some = np.where(nan, one, elements), True
        alike.update(np.ascontiguousarray(elements).tobytes())
    short = [digest.hexdigest()[:16] for digest in (exact, alike)]
    return " ".join(short if some else short[:1])
