"""Cases of 128 bits at once: loads, stores and atomics with every modifier, and moves between registers."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.interpreter.ptx.table import FORMS, Modifiers

from .move_cases import CONSTANTS, Move, Octets, Want, put, taken
from .move_memory import NEAR, PAIR, POLICY, address, generic, goes_together, spelled
from .spellings import spellings

_SIZE = 16
_CELL = 32
"""Where the bytes of an access lie among a thread's own."""
_LEAVE = f"mov.b128 {{%d4, %d5}}, %q0; {put('%d4', '%d5')}"
_HINT = ", %d20"


def _moved(read: Octets, out: Octets) -> None:
    """The bytes of the access come first."""
    out[:, :_SIZE] = read[:, _CELL : _CELL + _SIZE]


def _constant(read: Octets, out: Octets) -> None:
    out[:, :_SIZE] = CONSTANTS[_CELL : _CELL + _SIZE]


def _nothing(read: Octets, out: Octets) -> None:
    out[:, :_SIZE] = 0


def _load(opcode: str, m: Modifiers) -> Move:
    space, hint = m.get("space", ""), bool(m.get("L2__cache_hint"))
    place = space.partition("::")[0] or generic(opcode, m, NEAR.get(m.get("sem", "ldu"), ()))
    if place == "param":  # of a tensor map, whose bytes are each device's own
        plain = f"ld.param.v2.b64 {{%d6, %d7}}, [m+{_CELL}]; xor.b64 %d4, %d4, %d6; xor.b64 %d5, %d5, %d7;"
        body = f"{opcode} %q0, [m+{_CELL}]; mov.b128 {{%d4, %d5}}, %q0; {plain} {put('%d4', '%d5')}"
        return Move(opcode, body, _nothing, needs=frozenset({"tensor"}))
    lines, base = address(space, place, "%a")
    body = f"{POLICY if hint else ''} {lines} {opcode} %q0, [{base}+{_CELL}]{_HINT if hint else ''}; {_LEAVE}"
    needs, want = (frozenset({"constant"}), _constant) if place == "const" else (frozenset[str](), _moved)
    return Move(opcode, body, want, "" if space else f"({place})", needs=needs)


def _store(opcode: str, m: Modifiers) -> Move:
    space, hint = m.get("space", ""), bool(m.get("L2__cache_hint"))
    place = space.partition("::")[0] or generic(opcode, m, [p for p in NEAR[m["sem"]] if p != "const"])
    lines, base = address(space, place, "%o")
    after = "" if place == "global" else taken(place, {"shared": "%s", "local": "%c"}[place])

    def want(read: Octets, out: Octets) -> None:
        if place != "global":
            out[:] = read
        out[:, _CELL : _CELL + _SIZE] = read[:, :_SIZE]

    body = f"ld.global.v2.b64 {{%d4, %d5}}, [%a]; mov.b128 %q0, {{%d4, %d5}}; {POLICY if hint else ''}"
    body += f" {lines} {opcode} [{base}+{_CELL}], %q0{_HINT if hint else ''}; {after}"
    return Move(opcode, body, want, "" if space else f"({place})")


# --- atomics ---


def _exchanged(op: str) -> Want:
    """What was there first, and the cell afterwards: only even threads compare with both of its halves."""

    def want(read: Octets, out: Octets) -> None:
        out[:, :_SIZE] = out[:, _CELL : _CELL + _SIZE] = read[:, :_SIZE]
        changed = slice(None) if op == "exch" else slice(None, None, 2)
        first = _SIZE if op == "exch" else _CELL
        out[changed, _CELL : _CELL + _SIZE] = read[changed, first : first + _SIZE]

    return want


_COMPARED = "and.b32 %x20, %t, 1; setp.eq.u32 %p0, %x20, 0; and.b32 %x21, %t, 2; setp.eq.or.u32 %p1, %x21, 0, %p0;" \
    " setp.ne.or.u32 %p2, %x21, 0, %p0; selp.b64 %d8, %d0, %d8, %p1; selp.b64 %d9, %d1, %d9, %p2;"  # fmt: skip
"""Even threads compare with the cell, others with one half of it."""


def _atomic(opcode: str, m: Modifiers) -> Move:
    space, op, hint = m.get("space", ""), m["op"], bool(m.get("L2__cache_hint"))
    place = space.partition("::")[0] or generic(opcode, m, ("shared",))
    lines, base = address(space, place, "%o")
    cell = f"%{'o' if place == 'global' else 's'}+{_CELL}"
    body = f"ld.global.v2.b64 {{%d0, %d1}}, [%a]; st.{place}.v2.b64 [{cell}], {{%d0, %d1}};"
    body += f" ld.global.v2.b64 {{%d8, %d9}}, [%a+{_SIZE}]; ld.global.v2.b64 {{%d10, %d11}}, [%a+{_CELL}];"
    body += f" {_COMPARED if op == 'cas' else ''} mov.b128 %q1, {{%d8, %d9}}; mov.b128 %q2, {{%d10, %d11}};"
    operands = f"%q1{', %q2' if op == 'cas' else ''}{_HINT if hint else ''}"
    body += f" {POLICY if hint else ''} {lines} {opcode} %q0, [{base}+{_CELL}], {operands}; {_LEAVE}"
    if place != "global":
        body += f" ld.shared.v2.b64 {{%d4, %d5}}, [{cell}]; st.global.v2.b64 [%o+{_CELL}], {{%d4, %d5}};"
    return Move(opcode, body, _exchanged(op), "" if space else f"({place})")


# --- registers ---


def _words(*places: int) -> Want:
    """Words of 32 bits come first, by number; -1 has all bits set, -2 none."""

    def want(read: Octets, out: Octets) -> None:
        for at, place in enumerate(places):
            octets = read[:, 4 * place : 4 * place + 4] if place >= 0 else 0xFF * (place + 2)
            out[:, 4 * at : 4 * at + 4] = octets

    return want


def _signed(read: Octets, out: Octets) -> None:
    out[:, :4] = read[:, :4]
    out[:, 4:8] = (read[:, 3:4] >> 7) * 0xFF  # to 64 bits, as an H200 has it
    out[:, 8:_SIZE] = 0


_FOUR = "ld.global.v4.b32 {%x4, %x5, %x6, %x7}, [%a];"


def _registers() -> Iterator[Move]:
    """Taken apart, put together, copied, constant; and wider than what is loaded or stored."""
    leave = "st.global.b128 [%o], %q0;"
    for note, body, want in (
        ("(of four)", f"{_FOUR} mov.b128 %q0, {{%x7, %x5, %x6, %x4}}; {leave}", _words(3, 1, 2, 0)),
        ("(to four)", "ld.global.b128 %q0, [%a]; mov.b128 {%x4, %x5, %x6, %x7}, %q0;"
         " st.global.v4.b32 [%o], {%x7, %x5, %x6, %x4};", _words(3, 1, 2, 0)),
        ("(to one of two)", "ld.global.b128 %q0, [%a]; mov.b128 {_, %d4}, %q0; st.global.b64 [%o], %d4;", _words(2, 3)),
        ("(of a register)", f"ld.global.b128 %q1, [%a]; mov.b128 %q0, %q1; {leave}", _words(0, 1, 2, 3)),
        ("(of -1)", f"mov.b128 %q0, -1; {leave}", _words(-1, -1, -2, -2)),
        ("(of 0xffffffff)", f"mov.b128 %q0, 0xffffffff; {leave}", _words(-1, -2, -2, -2)),
        ("(of a register and a number)", f"ld.global.b64 %d4, [%a]; mov.b128 %q0, {{%d4, -1}}; {leave}",
         _words(0, 1, -1, -1)),
    ):  # fmt: skip
        yield Move("mov.b128", body, want, note)
    for type_, want in (("s32", _signed), ("u32", _words(0, -2, -2, -2)), ("b64", _words(0, 1, -2, -2))):
        yield Move(f"ld.global.{type_}", f"ld.global.{type_} %q0, [%a]; {leave}", want, "(to 128 bits)")
    for type_, want in (("b32", _words(0)), ("b64", _words(0, 1))):
        yield Move(f"st.global.{type_}", f"ld.global.b128 %q0, [%a]; st.global.{type_} [%o], %q0;", want,
                   "(of 128 bits)")  # fmt: skip


def wide_cases() -> Iterator[Move]:
    """All of them, by the rows of the table."""
    for form in (form for base in ("ld", "ldu", "st") for form in FORMS[base] if PAIR in form.syntax):
        for opcode, m in spelled(form):
            yield _store(opcode, m) if opcode.startswith("st") else _load(opcode, m)
    for form in (form for form in FORMS["atom"] if PAIR in form.syntax):
        for opcode in spellings(form, goes_together):
            yield _atomic(opcode, form.match(opcode) or {})
    yield from _registers()
