"""Which instructions are probed: every row of the emulator's table that computes from registers, as `Case` has them.

`pure` rows say the types of their operands themselves. Of the others, conversions and comparisons are read off their
modifiers, and what warps and atomics do is listed by hand. Left out are `cvta` and `isspacep`, whose results depend on
where memory lies, and what `mma`, `wgmma` and the tensor copies do, which have probes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product

from tilewright.interpreter.ptx import ops
from tilewright.interpreter.ptx.table import FORMS, Form, type_of

from .cases import Case

__all__ = ["cases", "ops"]

_ADDRESSES = ("cvta", "isspacep")
_SWEPT_ALONE = "f32"
"""The type whose approximate functions of one operand `sweeps` gives all 2**32 inputs."""
_TABLES = (0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x96, 0xE8, 0xCA, 0x1B, 0xF8, 0x3C, 0x00, 0xFF)


def _pure(form: Form) -> Iterator[Case]:
    """Every spelling of a row that says its types."""
    for opcode in form.opcodes:
        modifiers = form.match(opcode) or {}
        outputs, inputs = (tuple(type_of(w, modifiers).name for w in part) for part in (form.outputs, form.inputs))
        if form.bounds and inputs == (_SWEPT_ALONE,):
            continue
        yield Case(opcode, form.syntax, outputs, inputs, bounds=form.bounds)


def _lop3(form: Form) -> Iterator[Case]:
    """The table is a constant."""
    for number in _TABLES:
        body = f"lop3.b32 {{d0}}, {{a0}}, {{a1}}, {{a2}}, {number:#04x};"
        yield Case(f"lop3.b32 {number:#04x}", form.syntax, ("b32",), ("b32",) * 3, body)


def _fns(form: Form) -> Iterator[Case]:
    """The base is the number of a bit."""
    yield Case("fns.b32", form.syntax, ("b32",), ("b32", "b32", "s32"), narrowed=(-1 & 0xFFFF_FFFF, 31, 0xFFFF_FFFF))


def _cvt(form: Form) -> Iterator[Case]:
    if form.kernel is not None:
        yield from _pure(form)
        return
    for opcode in form.opcodes:
        modifiers = form.match(opcode) or {}
        yield Case(opcode, form.syntax, (modifiers["dtype"],), (modifiers["atype"],))


def _setp(form: Form) -> Iterator[Case]:
    """With both results; those of 16 bits have one, and packed ones one for each half."""
    for opcode in form.opcodes:
        modifiers = form.match(opcode) or {}
        one, extra = modifiers["type"] in ("f16", "bf16"), ("pred",) if modifiers["combine"] else ()
        sources = ", ".join(f"{{a{n}}}" for n in range(2 + len(extra)))
        body = f"{opcode} {'{d0}' if one else '{d0}|{d1}'}, {sources};"
        yield Case(
            opcode, form.syntax, ("pred",) * (2 - one), (modifiers["type"], modifiers["type"], *extra), body
        )  # fmt: skip


_ALL = "0xffffffff"


def _warp() -> Iterator[Case]:
    """Among all lanes of a warp."""
    for mode in ("up", "down", "bfly", "idx"):
        name = f"shfl.sync.{mode}.b32"
        body = f"{name} {{d0}}|{{d1}}, {{a0}}, {{a1}}, {{a2}}, {_ALL};"
        masks = (0xFFFF_FFFF, 31, 0x1F1F)
        yield Case(name, "shfl.sync", ("b32", "pred"), ("b32", "b32", "b32"), body, narrowed=masks)
    for mode in ("all", "any", "uni"):
        yield Case(f"vote.sync.{mode}.pred", "vote.sync", ("pred",), ("pred",), _members(f"vote.sync.{mode}.pred"))
    yield Case("vote.sync.ballot.b32", "vote.sync", ("b32",), ("pred",), _members("vote.sync.ballot.b32"))
    for bits in (32, 64):
        any_, all_ = f"match.any.sync.b{bits}", f"match.all.sync.b{bits}"
        yield Case(any_, "match.sync", ("b32",), (f"b{bits}",), _members(any_), narrowed=(3,))
        yield Case(all_, "match.sync", ("b32", "pred"), (f"b{bits}",), _members(all_, "{d0}|{d1}"), narrowed=(0,))
    sums = [(op, t) for op, t in product(("add", "min", "max"), ("u32", "s32"))]
    for op, type_ in [*sums, *((op, "b32") for op in ("and", "or", "xor"))]:
        yield Case(f"redux.sync.{op}.{type_}", "redux.sync", (type_,), (type_,), _members(f"redux.sync.{op}.{type_}"))
    yield Case("elect.sync", "elect.sync", ("b32", "pred"), ("b32",), f"elect.sync {{d0}}|{{d1}}, {_ALL};")
    yield Case("activemask.b32", "activemask", ("b32",), ("b32",), "activemask.b32 {d0};")
    name = "movmatrix.sync.aligned.m8n8.trans.b16"
    yield Case(name, "movmatrix", ("b32",), ("b32",), f"{name} {{d0}}, {{a0}};")


def _members(opcode: str, target: str = "{d0}") -> str:
    return f"{opcode} {target}, {{a0}}, {_ALL};"


_ATOMICS = (
    (("add",), "", ("u32", "s32", "u64", "f32", "f64")),
    (("min", "max"), "", ("u32", "s32", "u64", "s64")),
    (("and", "or", "xor"), "", ("b32", "b64")),
    (("add",), ".noftz", ("f16", "f16x2", "bf16", "bf16x2")),
    (("inc", "dec"), "", ("u32",)),
    (("exch",), "", ("b32", "b64")),
)
_VECTORS = (
    ("add", "", "f32"),
    *(("add", ".noftz", type_) for type_ in ("f16x2", "bf16x2")),
    *((op, ".noftz", type_) for op in ("add", "min", "max") for type_ in ("f16", "bf16")),
)


def _atomics() -> Iterator[Case]:
    """One thread on its own cell: what was there, and what is there then; global and shared may differ."""
    for (operations, modifier, types), space in product(_ATOMICS, ("global", "shared")):
        cell = "{cell}" if space == "global" else "{shared}"
        for op, type_ in product(operations, types):
            bits = f"b{_bits(type_)}"
            before, after = f"st.{space}.{bits} [{cell}], {{a0}};", f"ld.{space}.{bits} {{d1}}, [{cell}];"
            name = f"atom.{space}.{op}{modifier}.{type_}"
            body = f"{before} {name} {{d0}}, [{cell}], {{a1}}; {after}"
            yield Case(name, f"atom.{space}", (type_, type_), (type_, type_), body)
            if op != "exch":
                body = f"{before} {name.replace('atom', 'red')} [{cell}], {{a1}}; {after.replace('d1', 'd0')}"
                yield Case(name.replace("atom", "red"), f"red.{space}", (type_,), (type_, type_), body)
    for type_, space in product(("b16", "b32", "b64"), ("global", "shared")):
        cell, name = "{cell}" if space == "global" else "{shared}", f"atom.{space}.cas.{type_}"
        body = f"st.{space}.{type_} [{cell}], {{a0}}; {name} {{d0}}, [{cell}], {{a1}}, {{a2}};"
        body += f" ld.{space}.{type_} {{d1}}, [{cell}];"
        yield Case(name, f"atom.{space}", (type_, type_), (type_,) * 3, body, narrowed=(3, 3, (1 << _bits(type_)) - 1))
    for op, modifier, type_ in _VECTORS:
        name, bits = f"atom.global.{op}{modifier}.v2.{type_}", _bits(type_)
        body = f"st.global.v2.b{bits} [{{cell}}], {{{{{{a0}}, {{a1}}}}}};"
        body += f" {name} {{{{{{d0}}, {{d1}}}}}}, [{{cell}}], {{{{{{a1}}, {{a0}}}}}};"
        yield Case(
            name, "atom.global.v2", (type_,) * 3, (type_,) * 2, f"{body} ld.global.b{bits} {{d2}}, [{{cell}}];"
        )  # fmt: skip


def _bits(type_: str) -> int:
    return 32 if type_.endswith("x2") else int(type_.lstrip("bfusi"))


def _carries() -> Iterator[Case]:
    """Three words: one that gives a carry, one that takes and gives, one that takes."""
    for type_, (first, second) in product(
        ("u32", "s32", "u64", "s64"), (("add", "addc"), ("sub", "subc"), ("mad.lo", "madc.hi"), ("mad.hi", "madc.lo"))
    ):
        one, other = ("{a0}, {a1}, {a2}",) * 2 if first.startswith("mad") else ("{a0}, {a1}", "{a1}, {a2}")
        last = "subc" if first == "sub" else "addc"
        body = (
            f"{first}.cc.{type_} {{d0}}, {one}; {second}.cc.{type_} {{d1}}, {other}; {last}.{type_} {{d2}}, {{a0}}, 0;"
        )
        yield Case(f"{first}.cc.{type_} and {second}", f"{first}.cc", (type_,) * 3, (type_,) * 3, body)
    for type_, half in product(("u32", "s32", "u64", "s64"), ("lo", "hi")):
        body = f"sub.cc.{type_} {{d0}}, {{a0}}, {{a1}}; madc.{half}.{type_} {{d1}}, {{a0}}, {{a1}}, {{a2}};"
        yield Case(f"sub.cc.{type_} and madc.{half}", "madc", (type_,) * 2, (type_,) * 3, body)


def _moves() -> Iterator[Case]:
    """Registers taken apart and put together."""
    for wide, narrow in (("b32", "b16"), ("b64", "b32")):
        body = f"mov.{wide} {{{{{{d0}}, {{d1}}}}}}, {{a0}};"
        yield Case(f"mov.{wide} to two", f"mov.{wide}", (narrow, narrow), (wide,), body)
        body = f"mov.{wide} {{d0}}, {{{{{{a0}}, {{a1}}}}}};"
        yield Case(f"mov.{wide} of two", f"mov.{wide}", (wide,), (narrow, narrow), body)
    body = "mov.b128 %wide, {{{a0}, {a1}}}; mov.b128 {{{d1}, {d0}}}, %wide;"
    yield Case("mov.b128 of two and to two", "mov.b128", ("b64",) * 2, ("b64",) * 2, body)


_READERS: dict[str, Callable[[Form], Iterator[Case]]] = {"cvt": _cvt, "setp": _setp, "lop3": _lop3, "fns": _fns}


@cache
def cases() -> tuple[Case, ...]:
    """All of them, by the order of the table; each name once."""
    found: dict[str, Case] = {}
    for base, forms in FORMS.items():
        for form in forms:
            if base in _ADDRESSES or form.kernel is None and base not in _READERS:
                continue
            for case in _READERS.get(base, _pure)(form):
                found.setdefault(case.name, case)
    for case in (*_warp(), *_atomics(), *_carries(), *_moves()):
        found.setdefault(case.name, case)
    return tuple(found.values())
