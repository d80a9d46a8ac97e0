"""Loads and stores in every state space, and what is said of an access that is wrong."""

import numpy as np
import pytest

from tests.interpreter.ptx.programs import HEADER, run
from tilewright.interpreter import Buffer, MemoryAccessError
from tilewright.interpreter.ptx import load_ptx, run_ptx

START = """
.reg .b32 %i, %x, %y, %z, %w; .reg .b64 %a, %b, %o, %s; .reg .b16 %h; .reg .pred %p;
mov.u32 %i, %ctaid.x; mov.u32 %x, %ntid.x; mul.lo.u32 %i, %i, %x; mov.u32 %x, %tid.x; add.u32 %i, %i, %x;
"""
POINTERS = "ld.param.u64 %a, [a]; ld.param.u64 %b, [b];"


def test_widths_and_signs() -> None:
    source = np.array([0x80, 0x7F, 0xFF, 0x01] * 8, np.uint8)
    out = np.zeros((32, 4), np.int64)
    body = START + POINTERS + """
        cvt.u64.u32 %o, %i; add.u64 %a, %a, %o; shl.b64 %o, %o, 5; add.u64 %b, %b, %o;
        ld.global.s8 %x, [%a]; cvt.s64.s32 %s, %x; st.global.s64 [%b], %s;
        ld.global.u8 %h, [%a]; cvt.u64.u16 %s, %h; st.global.u64 [%b+8], %s;
        ld.global.s8 %s, [%a]; st.global.b64 [%b+16], %s;
        mov.u32 %x, 0x12345678; st.global.u8 [%b+24], %x; st.global.u16 [%b+26], %x;
    """  # fmt: skip
    run(body, source, out)
    signed = source.view(np.int8).astype(np.int64)
    assert np.array_equal(out[:, :3], np.stack([signed, source, signed], 1))
    assert (out[:, 3] == 0x5678_0078).all()


@pytest.mark.parametrize("hint", ["", ".cg", ".nc", ".L1::evict_last", ".nc.L1::no_allocate.L2::128B", ".ca"])
def test_vectors(hint: str) -> None:
    source, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    body = START + POINTERS + f"""
        mul.wide.u32 %o, %i, 16; add.u64 %a, %a, %o; add.u64 %b, %b, %o;
        ld.global{hint}.v4.b32 {{%x, %y, %z, _}}, [%a]; st.global.v4.f32 [%b], {{%z, %y, %x, 0f3F800000}};
    """  # fmt: skip
    run(body, source, out, block=64)
    rows = source.reshape(-1, 4)
    assert np.array_equal(out.reshape(-1, 4), np.stack([rows[:, 2], rows[:, 1], rows[:, 0], np.ones(64)], 1))


def test_shared_memory_exchanges_within_each_block() -> None:
    out = np.zeros((3, 64), np.uint32)
    body = START + """
        .shared .align 16 .b8 pad[5]; .shared .align 4 .b32 tile[64];
        mov.u32 %x, %tid.x; shl.b32 %y, %x, 2; mov.u32 %z, tile; add.u32 %z, %z, %y; st.shared.u32 [%z], %i;
        bar.sync 0;
        sub.u32 %x, 63, %x; shl.b32 %x, %x, 2; cvt.u64.u32 %s, %x; mov.u64 %b, tile; cvta.shared.u64 %b, %b;
        add.u64 %b, %b, %s; ld.u32 %w, [%b];
        ld.param.u64 %a, [a]; mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o; st.u32 [%a], %w;
    """  # fmt: skip
    run(body, out, grid=3, block=64)
    assert np.array_equal(out, np.arange(192).reshape(3, 64)[:, ::-1])


def test_dynamic_shared_memory_begins_behind_the_static() -> None:
    out = np.zeros(32, np.uint32)
    before = ".extern .shared .align 64 .b8 dynamic[]; .shared .align 4 .b32 fixed;"
    body = START + """
        mov.u32 %x, dynamic; mov.u32 %y, fixed; sub.u32 %x, %x, %y; st.shared.u32 [dynamic+60], %x; bar.sync 0;
        ld.shared.u32 %w, [dynamic+60]; ld.param.u64 %a, [a]; mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o;
        st.global.u32 [%a], %w;
    """  # fmt: skip
    run(body, out, before=before, shared_bytes=64)
    assert (out == 64).all()
    with pytest.raises(MemoryAccessError, match="shared address 0x7c, out of bounds: there are 124 bytes"):
        run(body, out, before=before, shared_bytes=60)


def test_generic_addresses_mix_spaces() -> None:
    """Even threads read the parameter, odd ones local memory, through one load."""
    out = np.zeros(32, np.uint32)
    body = START + """
        .local .align 8 .b8 depot[8]; .reg .b64 %l;
        add.u32 %x, %i, 100; st.local.u32 [depot+4], %x; mov.b64 %l, depot; add.u64 %l, %l, 4; cvta.local.u64 %l, %l;
        mov.b64 %s, a; cvta.param.u64 %s, %s; and.b32 %y, %i, 1; setp.eq.u32 %p, %y, 0; selp.b64 %b, %s, %l, %p;
        ld.u32 %w, [%b]; ld.param.u64 %a, [a]; mul.wide.u32 %o, %i, 4; add.u64 %o, %a, %o; st.global.u32 [%o], %w;
    """  # fmt: skip
    run(body, out)
    low = out.ctypes.data & 0xFFFF_FFFF
    assert out.tolist() == [low if i % 2 == 0 else i + 100 for i in range(32)]


def test_module_variables_and_pointers_to_them() -> None:
    out = np.zeros(32, np.uint32)
    before = """
        .const .align 4 .u32 table[4] = {10, 20, 0x1E, 0b101000};
        .global .align 8 .u64 where[2] = {generic(table)+8, 7};
        .global .align 4 .f32 scale = 0f40200000;
    """
    body = START + """
        and.b32 %x, %i, 3; mul.wide.u32 %o, %x, 4; mov.u64 %s, table; add.u64 %s, %s, %o; ld.const.u32 %w, [%s];
        ld.global.u64 %s, [where]; ld.u32 %y, [%s]; add.u32 %w, %w, %y; ld.global.f32 %z, [scale];
        cvt.rzi.u32.f32 %z, %z; add.u32 %w, %w, %z;
        ld.param.u64 %a, [a]; mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o; st.global.u32 [%a], %w;
    """  # fmt: skip
    run(body, out, before=before)
    assert out.tolist() == [[10, 20, 30, 40][i % 4] + 30 + 2 for i in range(32)]


def test_parameters_of_every_type() -> None:
    text = (
        HEADER
        + """
        .visible .entry k(.param .u8 c, .param .align 2 .b8 h[2], .param .f32 f, .param .u64 .ptr .global .align 4 p,
                          .param .s64 n, .param .align 16 .b8 s[12]) {
        .reg .b32 %x; .reg .b16 %r; .reg .b64 %a, %b; ld.param.u64 %a, [p];
        ld.param.u8 %r, [c]; cvt.u32.u16 %x, %r; st.global.u32 [%a], %x;
        ld.param.b16 %r, [h]; cvt.f32.f16 %x, %r; st.global.f32 [%a+4], %x;
        ld.param.f32 %x, [f]; st.global.f32 [%a+8], %x;
        ld.param.s64 %b, [n]; cvt.u32.u64 %x, %b; st.global.u32 [%a+12], %x;
        ld.param.u32 %x, [s+8]; st.global.u32 [%a+16], %x; }
    """
    )
    module = load_ptx(text)
    parameters = module.entry("k").parameters
    assert [(p.name, p.type, p.size, p.offset) for p in parameters] == [
        ("c", "u8", 1, 0), ("h", "b8[2]", 2, 2), ("f", "f32", 4, 4), ("p", "u64", 8, 8), ("n", "s64", 8, 16),
        ("s", "b8[12]", 12, 32),
    ]  # fmt: skip
    out = np.zeros(5, np.uint32)
    struct = np.array([1, 2, 3], np.uint32).tobytes()
    run_ptx(module, "k", (1,), (1,), [200, 0.5, 1.25, Buffer.of("out", out), -3, struct])
    want = [200, np.float32(0.5).view(np.uint32), np.float32(1.25).view(np.uint32), 0xFFFF_FFFD, 3]
    assert out.tolist() == want


def faulty(access: str, array: np.ndarray, readonly: bool | None = None) -> str:
    """The report of an access of thread i to array element i (of 4 bytes), from line 21 of a source file."""
    text = (
        HEADER
        + f"""
        .file 1 "rows.scale"
        .visible .entry k(.param .u64 p) {{
        .reg .b32 %i, %x, %y, %z, %w; .reg .b64 %a, %o; mov.u32 %x, 1; mov.u32 %i, %ctaid.x; shl.b32 %i, %i, 5;
        mov.u32 %y, %tid.x; add.u32 %i, %i, %y; mul.wide.u32 %o, %i, 4; ld.param.u64 %a, [p]; add.u64 %a, %a, %o;
        .loc 1 21 7
        {access} }}
    """
    )
    buffer = Buffer.of("x", array, readonly)
    with pytest.raises(MemoryAccessError) as caught:
        run_ptx(load_ptx(text), "k", (2,), (32,), [buffer])
    return str(caught.value)


def test_out_of_bounds() -> None:
    x = np.zeros(40, np.float32)
    end = x.ctypes.data + 160
    assert faulty("ld.global.f32 %x, [%a];", x) == (
        f"rows.scale:21:7: load of 4 bytes at byte address {end:#x}, which is in no argument: it would be element 40 "
        "of x (float32, shape (40,)), 0 bytes past its end; thread (8, 0, 0) (program (1, 0, 0))"
    )
    assert faulty("st.global.f32 [%a+-8], %x;", x) == (
        f"rows.scale:21:7: store of 4 bytes at byte address {end - 168:#x}, which is in no argument: it would be "
        "element -2 of x (float32, shape (40,)), 8 bytes before it; thread (0, 0, 0) (program (0, 0, 0))"
    )


def test_misaligned() -> None:
    x = np.zeros(80, np.float32)
    x = x[-x.ctypes.data % 16 // 4 :][:64]
    assert faulty("ld.global.v2.f32 {%x, %y}, [%a];", x) == (
        "rows.scale:21:7: load of 8 bytes at element 1 of x (float32, shape (64,)): misaligned, byte address "
        f"{x.ctypes.data + 4:#x} is no multiple of 8; thread (1, 0, 0) (program (0, 0, 0))"
    )


def test_read_only_and_null() -> None:
    x = np.zeros(64, np.float32)
    assert faulty("st.global.f32 [%a], %x;", x, readonly=True) == (
        "rows.scale:21:7: store of 4 bytes at element 0 of x (float32, shape (64,)), which is read-only; "
        "thread (0, 0, 0) (program (0, 0, 0))"
    )
    assert faulty("ld.global.u32 %x, [0];", x) == (
        "rows.scale:21:7: load of 4 bytes at a null pointer; thread (0, 0, 0) (program (0, 0, 0))"
    )
    assert "atomic access to 4 bytes at a null pointer" in faulty("atom.global.add.u32 %x, [0], 1;", x)


def test_an_access_that_straddles_the_end() -> None:
    x = np.zeros(255, np.uint8)
    report = faulty("ld.global.u32 %x, [%a];", x)
    assert "load of 4 bytes at element 252 of x (uint8, shape (255,)), out of bounds: it ends 3 bytes further" in report


def test_shared_and_local_faults() -> None:
    x = np.zeros(64, np.float32)
    before = ".shared .align 4 .b8 s[64]; mov.u32 %x, s; shl.b32 %y, %i, 2; add.u32 %x, %x, %y;"
    assert faulty(f"{before} st.shared.u32 [%x], %i;", x) == (
        "rows.scale:21:7: store of 4 bytes at shared address 0x40, out of bounds: there are 64 bytes; "
        "thread (16, 0, 0) (program (0, 0, 0))"
    )
    assert faulty(f"{before} ld.shared.u32 %y, [%x+2];", x) == (
        "rows.scale:21:7: load of 4 bytes at shared address 0x2: misaligned, it needs a multiple of 4; "
        "thread (0, 0, 0) (program (0, 0, 0))"
    )
    local = ".local .align 4 .b8 l[8]; mov.b64 %o, l; ld.local.u32 %x, [%o+8];"
    assert "load of 4 bytes at local address 0x8, out of bounds: there are 8 bytes" in faulty(local, x)


def test_two_buffers_in_one_access() -> None:
    a, b = np.arange(32, dtype=np.uint32), np.arange(100, 132, dtype=np.uint32)
    body = START + POINTERS + """
        and.b32 %x, %i, 1; setp.eq.u32 %p, %x, 0; selp.b64 %s, %a, %b, %p; mul.wide.u32 %o, %i, 4; add.u64 %s, %s, %o;
        ld.global.u32 %y, [%s]; add.u32 %y, %y, 1; st.global.u32 [%s], %y;
    """  # fmt: skip
    run(body, a, b)
    assert a.tolist() == [i + (i % 2 == 0) for i in range(32)]
    assert b.tolist() == [100 + i + (i % 2 == 1) for i in range(32)]
