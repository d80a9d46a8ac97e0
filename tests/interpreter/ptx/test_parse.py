"""PTX text that is wrong: what is said of it, to the letter; and what must be accepted."""

import pickle

import numpy as np
import pytest

from tests.interpreter.ptx.programs import HEADER, module_text, run
from tilewright.interpreter import Buffer, LaunchError
from tilewright.interpreter.ptx import PtxError, load_ptx, run_ptx

REGS = ".reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .f32 %f<2>; .reg .b16 %h; .reg .pred %p;\n"

# statement: (what is said, the text the caret stands under)
BODY_ERRORS = {
    "frob.s32 %r1, %r2;": ("unknown instruction `frob`", "frob"),
    "add.rn.s32 %r1, %r2, %r3;": (
        "`add.rn.s32` is not a form of `add`; the forms: "
        "add.cc.<type:u32|s32|u64|s64>, "
        "add[.rn].<type:bf16|bf16x2>, add[.rn][.ftz][.sat].<type:f16|f16x2>, add[.<rnd:rn|rz|rm|rp>].<type:f64>, "
        "add[.<rnd:rn|rz|rm|rp>][.ftz].<type:f32x2>, add[.<rnd:rn|rz|rm|rp>][.ftz][.sat].<type:f32>, "
        "add[.<rnd:rn|rz|rm|rp>][.sat].<type:f32>.<narrow:f16|bf16>, "
        "add.<type:u16|u32|u64|s16|s32|s64|u16x2|s16x2>, add.<sat:sat>.<type:s32>",
        "add",
    ),
    "add.rx.f32 %f1, %f1, %f1;": ("unknown modifier `.rx` of `add`", "add"),
    "add.s32 %r1, %r2;": ("`add.s32` takes 3 operands, found 2", "add"),
    "add.s32 %r1, %r2, %rd1;": ("`%rd1` has 64 bits, `add.s32` needs 32", "add"),
    "add.s32 %p, %r2, %r1;": ("`%p` has 1 bit (a predicate), `add.s32` needs 32", "add"),
    "add.s32 5, %r2, %r1;": ("a destination of `add.s32` must be a register", "add"),
    "add.s32 %r1, %r2, 1.5;": ("`add.s32` needs an integer, found a float", "add"),
    "add.f32 %f1, %f1, 3;": ("`add.f32` needs a float, found 3", "add"),
    "mov.u32 %r1, %tid.w2;": ("expected `,` or `;`, found '.w2'", ".w2"),
    "mov.u32 %r1, %foo;": ("unknown register `%foo`", "mov"),
    "mov.u32 %r1, %r7;": ("unknown register `%r7`", "mov"),
    "@%r1 bra END;": ("the guard '%r1' is not a predicate", "%r1"),
    "bra NOWHERE;": ("no label `NOWHERE` in this function", "bra"),
    "END: ret;": ("label `END` stands twice", "END"),
    ".reg .b32 %r;.reg .b32 %r;": ("`%r` is declared twice", "%r"),
    ".reg .b33 %q;": ("unknown type `.b33`", ".b33"),
    ".frame 3;": ("unknown directive `.frame`", ".frame"),
    "ld.global.u32 %r1, %rd1;": ("`ld.global.u32` needs an address in brackets", "ld"),
    "ld.global.u32 %r1, [%q];": ("`%q` is neither a register nor a variable", "%q"),
    "ld.global.v2.u32 %r1, [%rd1];": ("`ld.global.v2.u32` needs 2 registers, found 1", "ld"),
    "ld.global.u32 %r1, [%h];": ("`%h` has 16 bits and cannot hold an address", "ld"),
    "cvt.f16.f32 %h, %f1;": ("`cvt.f16.f32` needs a rounding modifier", "cvt"),
    "cvt.rn.f64.f32 %rd1, %f1;": ("`cvt.rn.f64.f32` is exact: a rounding modifier is not allowed", "cvt"),
    "shfl.sync.bfly.b32 %r1, %r2, 1;": ("`shfl.sync.bfly.b32` takes 5 operands, found 3", "shfl"),
    "call.uni nothing, ();": ("call of `nothing`, which is not defined", "call"),
    "mov.b64 %rd1, {%r1, %r2": ("expected `,` or `}`, found ';'", ";"),
    "add.s32 %r1, %r2, #;": ("unexpected character '#'", "#"),
    "3;": ("expected an instruction, found '3'", "3"),
    "mov.b32 %r1, {%r1, %r2, %r3};": ("`mov.b32` cannot have 3 parts", "mov"),
}  # fmt: skip


@pytest.mark.parametrize("statement", BODY_ERRORS)
def test_mistakes_in_a_body(statement: str) -> None:
    what, under = BODY_ERRORS[statement]
    closing = "" if statement.endswith(";") else ";"
    with pytest.raises(PtxError) as caught:
        load_ptx(module_text(f"{REGS}{statement}{closing}\nEND: ret;"))
    line = f"{statement}{closing}"
    number, column = (8, line.rindex(under) if "declared twice" in what else line.index(under))
    if "stands twice" in what:
        line, number, column = "END: ret;", 9, 0
    assert str(caught.value) == f"PTX line {number}: {what}\n    {number} | {line}\n      | {' ' * column}^"


# text after the header: (what is said, the offset of the caret in the text)
MODULE_ERRORS = {
    ".global .u32 x[2] = {1, 2, 3};": ("12 bytes of initial values for the 8 of x", 29),
    ".shared .u32 x = 1;": ("a .shared variable cannot have an initial value", 15),
    ".global .u64 x = y;": ("unknown variable `y`", 17),
    ".bogus": ("unknown directive `.bogus`", 0),
    ".entry k() .fast { ret; }": ("unknown directive `.fast`", 11),
    ".entry k() { ret;": ("expected an instruction, found 'the end of the text'", 17),
    ".entry k() { ret; } .entry k() { ret; }": ("`k` is defined twice", 27),
    ".func f() { call f, (); ret; } .entry k() { call f, (); ret; }": ("recursion: `f` calls itself", 12),
    ".global .u32 x; .global .u32 x;": ("`x` is declared twice", 16),
}


@pytest.mark.parametrize("text", MODULE_ERRORS)
def test_mistakes_in_a_module(text: str) -> None:
    what, column = MODULE_ERRORS[text]
    with pytest.raises(PtxError) as caught:
        load_ptx(HEADER + text)
    assert str(caught.value) == f"PTX line 4: {what}\n    4 | {text}\n      | {' ' * column}^"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_mistakes_in_a_header() -> None:
    for text, report in {
        "": "PTX line 1: expected `.version`, found 'the end of the text'\n    1 | \n      | ^",
        ".version 8.8\n.foo": "PTX line 2: expected `.target`, found '.foo'\n    2 | .foo\n      | ^",
        HEADER.replace("64", "32"): (
            "PTX line 3: only 64-bit addresses are supported\n    3 | .address_size 32\n      |               ^"
        ),
    }.items():
        with pytest.raises(PtxError) as caught:
            load_ptx(text)
        assert str(caught.value) == report


def test_truncated_text_is_always_an_error() -> None:
    text = module_text(f"{REGS}ld.param.u64 %rd1, [p];\n@%p bra L;\nadd.s32 %r1, %r2, 0x10;\nL: ret;").rstrip()
    load_ptx(text)
    header_end = text.index(".visible")
    for length in range(header_end + 1, len(text)):
        with pytest.raises(PtxError):
            load_ptx(text[:length])


def test_comments_numbers_and_directives() -> None:
    out = np.zeros(6, np.uint32)
    body = """
        /* a comment
           of two lines */ .reg .b32 %x; .reg .b64 %a; // and one more ;
        .pragma "nounroll"; ld.param.u64 %a, [a];
        st.global.u32 [%a], 0x1F; st.global.u32 [%a+4], 0b101U; st.global.u32 [%a+8], 017; st.global.u32 [%a+12], -1;
        mov.f32 %x, 1.5; st.global.f32 [%a+16], %x; st.global.f32 [ %a + 20 ], 0f40490FDB;
    """
    run(body, out, block=1)
    assert out.tolist() == [31, 5, 15, 2**32 - 1, 0x3FC0_0000, 0x4049_0FDB]


def test_entries_and_attributes() -> None:
    text = (
        HEADER
        + """
        .weak .entry a() .reqntid 64, 2 .minnctapersm 2 { ret; }
        .visible .entry b(.param .u64 .ptr .global .align 16 p) .maxntid 128 .maxnreg 96 { ret; }
        .section .debug_info { .b8 1, 2, 3 }
    """
    )
    module = load_ptx(text)
    assert (module.version, module.target, module.address_size) == ("8.8", "sm_90a", 64)
    assert [entry.name for entry in module.entries] == ["a", "b"]
    assert module.entry("a").reqntid == (64, 2, 1) and module.entry("b").reqntid is None
    assert module.entry("b").maxntid == (128, 1, 1) and module.entry("b").attributes["maxnreg"] == (96,)
    assert module.entry("b").parameters[0].pointer
    with pytest.raises(PtxError, match="no entry `c`; the module's entries: a, b"):
        module.entry("c")


def test_launches_that_do_not_fit() -> None:
    text = HEADER + ".entry k(.param .u64 p, .param .u32 n, .param .f32 x) .reqntid 64 { ret; }"
    module, out = load_ptx(text), Buffer.of("out", np.zeros(1, np.float32))
    large = "a grid of (1, 1, 1) blocks of (2048, 1, 1) threads: a block has 1 to 1024 threads"
    cases = {
        "`k` needs blocks of (64, 1, 1) threads, found (32, 1, 1)": ((1,), (32,), [out, 1, 1.0]),
        "`k` has 3 parameters, found 2 arguments": ((1,), (64,), [out, 1]),
        "`n` has 4 bytes, too few for 4294967296": ((1,), (64,), [out, 1 << 32, 1.0]),
        "`n` is a u32, found the float 2.5": ((1,), (64,), [out, 2.5, 1.0]),
        "`n` has 4 bytes and cannot hold an address": ((1,), (64,), [out, out, 1.0]),
        "`x` has 4 bytes, found 2": ((1,), (64,), [out, 1, b"12"]),
        large: ((1,), (2048,), [out, 1, 1.0]),
        "a grid and a block have one to three numbers, found ()": ((), (64,), [out, 1, 1.0]),
    }
    for what, (grid, block, arguments) in cases.items():
        with pytest.raises(LaunchError) as caught:
            run_ptx(module, "k", grid, block, arguments)
        assert caught.value.what == what
    with pytest.raises(LaunchError, match="bytes of shared memory; the largest is 233472"):
        run_ptx(module, "k", (1,), (64,), [out, 1, 1.0], shared_bytes=1 << 20)
    assert run_ptx(module, "k", (0,), (64,), [out, 1, 1.0]).issued == 0
