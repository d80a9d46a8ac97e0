"""Cases of loads and stores in every state space, of every width, with every modifier."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.ptx.table import FORMS, Form, Modifiers

from .move_cases import CONSTANTS, Move, Octets, Want, bits_of, put, taken
from .spellings import spellings

_COUNT = {"": 1, "v2": 2, "v4": 4, "v8": 8}
_FAR = ("", "global")
"""State spaces that have caches to be told of: global memory, and generic addresses."""
NEAR: dict[str, tuple[str, ...]] = {
    "": ("shared", "local", "const"), "weak": ("shared", "local", "const"), "volatile": ("shared",),
    **dict.fromkeys(("relaxed", "acquire", "release"), ("shared",)), "mmio.relaxed": (),
}  # fmt: skip
"""Where else than to global memory a generic address of an access may point, by its semantics."""
_WIDE = ("<vec:v8>", "<vec:v4>")
"""In the rows of accesses to 32 bytes, which are of sm_100."""
PAIR = "<type:b128>"
"""In the rows of accesses to 128 bits at once."""
POLICY = "createpolicy.fractional.L2::evict_last.b64 %d20;"


def goes_together(m: Modifiers) -> bool:
    """What the assembler takes of loads, stores and atomics on sm_90a; wider accesses than 16 bytes are of sm_100."""
    caches = _told(m)
    space, volatile = m.get("space", ""), m.get("sem") == "volatile"
    if _COUNT[m.get("vec", "")] * bits_of(m["type"]) > 128 or space == "param::func":
        return False
    if any(caches) and (space not in _FAR or volatile) or m.get("cop") and (m.get("l1") or volatile):
        return False
    return not (volatile and space.partition("::")[0] in ("local", "param", "const"))


def generic(opcode: str, m: Modifiers, near: Sequence[str]) -> str:
    """Where a generic address points, by a hash: to global memory where caches are told of, else elsewhere too."""
    places = ("global",) if m.get("cop") or any(_told(m)) else ("global", *near)
    return places[zlib.crc32(opcode.encode()) % len(places)]


def _told(m: Modifiers) -> list[str]:
    return [m.get(name, "") for name in ("l1", "L2__cache_hint", "prefetch")]


def address(space: str, place: str, to: str) -> tuple[str, str]:
    """PTX before an access, and its address: of a state space, or generic ("") of a place; `to` is global memory."""
    if place == "global":
        return "", to
    base = {"shared": "%s", "local": "%c", "const": "table"}[place]
    if space:
        return "", base
    lines = "mov.u64 %d21, table;" if place == "const" else f"cvt.u64.u32 %d21, {base};"
    return f"{lines} cvta.{place}.u64 %d21, %d21;", "%d21"


def registers(type_: str, count: int) -> list[str]:
    """Registers for elements: 16 bits for plain ones of 16, 32 for narrower ones, which are extended, and s16."""
    kind = {64: "d", 32: "x", 16: "x" if type_ == "s16" else "h", 8: "x"}[bits_of(type_)]
    return [f"%{kind}{n + 4}" for n in range(count)]


def listed(names: Sequence[str]) -> str:
    """An operand: a register, or several in braces."""
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


def _elements(octets: Octets, at: int, type_: str, count: int) -> NDArray[np.generic]:
    """Elements of a row of bytes, [threads, count]."""
    size = bits_of(type_) // 8
    kind = "i" if type_[0] == "s" else "u"
    return np.ascontiguousarray(octets[:, at : at + size * count]).view(f"{kind}{size}")


# --- loads ---


def _loaded(at: int, type_: str, count: int, constant: bool, clear: bool) -> Want:
    """Each element extended to its register, 8 bytes apart."""
    bits = {"d": 64, "x": 32, "h": 16}[registers(type_, 1)[0][1]]

    def want(read: Octets, out: Octets) -> None:
        source = np.broadcast_to(CONSTANTS, read.shape) if constant else read
        wide = _elements(source, at, type_, count).astype(f"{'i' if type_[0] == 's' else 'u'}{bits // 8}")
        for n in range(count):
            value = np.zeros_like(wide[:, n]) if clear else wide[:, n]
            out[:, 8 * n : 8 * n + bits // 8] = np.ascontiguousarray(value).view(np.uint8).reshape(len(out), -1)

    return want


def _load(opcode: str, m: Modifiers) -> Move:
    type_, count = m["type"], _COUNT[m.get("vec", "")]
    space = m.get("space", "")
    place = space.partition("::")[0] or generic(opcode, m, NEAR.get(m.get("sem", "ldu"), ()))
    at = 16 + bits_of(type_) // 8 * (3 if count == 1 else 0)
    names = registers(type_, count)
    hint, before = (", %d20", POLICY) if m.get("L2__cache_hint") else ("", "")
    if place == "param":
        return _load_of_parameter(opcode, type_, names, at)
    lines, base = address(space, place, "%a")
    body = f"{before} {lines} {opcode} {listed(names)}, [{base}+{at}]{hint}; {put(*names)}"
    needs = frozenset({"constant"} if place == "const" else ())
    note = "" if space else f"({place})"
    return Move(opcode, body, _loaded(at, type_, count, place == "const", clear=False), note, needs=needs)


def _load_of_parameter(opcode: str, type_: str, names: Sequence[str], at: int) -> Move:
    """Of a tensor map, whose bytes are each device's own: compared with what a plain load gives."""
    width = {"d": 64, "x": 32, "h": 16}[names[0][1]]
    body, size = f"{opcode} {listed(names)}, [m+{at}];", bits_of(type_) // 8
    for n, name in enumerate(names):
        plain = f"%{name[1]}1"
        body += f" ld.param.{type_} {plain}, [m+{at + n * size}]; xor.b{width} {name}, {name}, {plain};"
    want = _loaded(at, type_, len(names), constant=False, clear=True)
    return Move(opcode, f"{body} {put(*names)}", want, needs=frozenset({"tensor"}))


# --- stores ---


def _store(opcode: str, m: Modifiers) -> Move:
    type_, count = m["type"], _COUNT[m.get("vec", "")]
    space, size = m.get("space", ""), bits_of(m["type"]) // 8
    place = space.partition("::")[0] or generic(opcode, m, [p for p in NEAR[m["sem"]] if p != "const"])
    at, names = 16 + size * (3 if count == 1 else 0), registers(type_, count)
    step = 8 if size == 8 else 4
    before = " ".join(f"ld.global.b{8 * (2 if name[1] == 'h' else step)} {name}, [%a+{step * n}];"
                      for n, name in enumerate(names))  # fmt: skip
    hint = ""
    if m.get("L2__cache_hint"):
        before, hint = f"{before} {POLICY}", ", %d20"
    lines, base = address(space, place, "%o")
    after = "" if place == "global" else taken(place, {"shared": "%s", "local": "%c"}[place])

    def want(read: Octets, out: Octets) -> None:
        if place != "global":
            out[:] = read
        for n in range(count):
            out[:, at + n * size : at + n * size + size] = read[:, step * n : step * n + size]

    body = f"{before} {lines} {opcode} [{base}+{at}], {listed(names)}{hint}; {after}"
    return Move(opcode, body, want, "" if space else f"({place})")


# --- parameters of functions ---


def _function(load: str, store: str, type_: str, count: int, opcode: str) -> Move:
    """A function that loads its parameter by one opcode and stores its result by another."""
    names, size = registers(type_, count), bits_of(type_) // 8
    part = registers(type_, 1)[0]
    before = f"""
.func (.param .align 16 .b8 r[16]) f(.param .align 16 .b8 y[16])
{{ .reg .b16 %h<9>; .reg .b32 %x<9>; .reg .b64 %d<9>;
{load} {listed(names)}, [y]; {store} [r], {listed(names)}; ret; }}"""
    lines = "ld.global.v2.b64 {%d8, %d9}, [%a+16]; { .param .align 16 .b8 y[16]; .param .align 16 .b8 r[16];"
    lines += " st.param.b64 [y], %d8; st.param.b64 [y+8], %d9; call.uni (r), f, (y);"
    for n in range(count):
        lines += f" ld.param.{type_} {part}, [r+{n * size}]; {put(part, first=n)}"
    return Move(opcode, lines + " }", _loaded(16, type_, count, constant=False, clear=False), "(function)", before)


def _functions() -> Iterator[Move]:
    for type_ in ("b8", "s16", "u32", "f32", "b64", "f64"):
        for vec, count in (("", 1), (".v2", 2), (".v4", 4)):
            if count * bits_of(type_) > 128:
                continue
            load, store = f"ld.param::func{vec}.{type_}", f"st.param::func{vec}.{type_}"
            yield _function(load, f"st.param{vec}.{type_}", type_, count, load)
            yield _function(f"ld.param{vec}.{type_}", store, type_, count, store)
            yield _function(f"ld.param{vec}.{type_}", f"st.param{vec}.{type_}", type_, count, f"st.param{vec}.{type_}")


def _written(m: Modifiers) -> bool:
    return goes_together(m) and m.get("space") != "param"


def memory_cases() -> Iterator[Move]:
    """All of them, by the rows of the table; `move_wide` has those of 128 bits."""
    for form in (*FORMS["ld"], *FORMS["ldu"]):
        for opcode, m in _spelled(form):
            yield _load(opcode, m)
    for form in FORMS["st"]:
        if form.syntax.startswith("st.async"):
            continue
        for opcode, m in _spelled(form):
            yield _store(opcode, m)
    yield from _functions()


def _spelled(form: Form) -> Iterator[tuple[str, Modifiers]]:
    if not any(vector in form.syntax for vector in (*_WIDE, PAIR)):
        yield from spelled(form)


def spelled(form: Form) -> Iterator[tuple[str, Modifiers]]:
    """The opcodes of a row of loads or stores, and their modifiers."""
    valid = goes_together if form.syntax.startswith("ld") else _written
    for opcode in spellings(form, valid):
        yield opcode, form.match(opcode) or {}
