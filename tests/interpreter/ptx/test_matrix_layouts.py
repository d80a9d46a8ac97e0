"""Where matrices lie in the registers of a warp: the fragments against the ISA's formulas, and what moves them."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.interpreter.ptx.programs import run
from tilewright.interpreter.ptx.fragments import Fragment, accumulator, left, right

Formula = Callable[[int, int, int], tuple[int, int]]
"""group, thread in group, number of the element -> row, column."""

# As the ISA's pages give them, element by element: sets of elements whose rows are 8 further down or whose k is further
# along, by the first and last element. One row for a shape and a width of elements.
LEFT: dict[tuple[int, int, int], Formula] = {
    (8, 4, 64): lambda g, t, i: (g, t),
    (16, 4, 64): lambda g, t, i: (g + 8 * (i == 1), t),
    (16, 8, 64): lambda g, t, i: (g + 8 * (i in (1, 3)), t + 4 * (i >= 2)),
    (16, 16, 64): lambda g, t, i: (g, 2 * i + t) if i % 2 == 0 else (g + 8, 2 * i - 2 + t),
    (16, 4, 32): lambda g, t, i: (g + 8 * (i == 1), t),
    (16, 8, 32): lambda g, t, i: (g + 8 * (i in (1, 3)), t + 4 * (i >= 2)),
    (16, 8, 16): lambda g, t, i: (g + 8 * (i >= 2), 2 * t + (i & 1)),
    (16, 16, 16): lambda g, t, i: (g if i < 2 or 4 <= i < 6 else g + 8, 2 * t + (i & 1) + 8 * (i >= 4)),
    (8, 16, 8): lambda g, t, i: (g, 4 * t + i),
    (16, 16, 8): lambda g, t, i: (g + 8 * (i >= 4), 4 * t + (i & 3)),
    (16, 32, 8): lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, 4 * t + (i & 3) + 16 * (i >= 8)),
    (8, 32, 4): lambda g, t, i: (g, 8 * t + i),
    (16, 32, 4): lambda g, t, i: (g + 8 * (i >= 8), 8 * t + (i & 7)),
    (16, 64, 4): lambda g, t, i: (g if i < 8 or 16 <= i < 24 else g + 8, 8 * t + (i & 7) + 32 * (i >= 16)),
    (8, 128, 1): lambda g, t, i: (g, 32 * t + i),
    (16, 128, 1): lambda g, t, i: (g + 8 * (i >= 32), 32 * t + (i & 31)),
    (16, 256, 1): lambda g, t, i: (g if i < 32 or 64 <= i < 96 else g + 8, 32 * t + (i & 31) + 128 * (i >= 64)),
}
RIGHT: dict[tuple[int, int], Formula] = {
    (4, 64): lambda g, t, i: (t, g),
    (8, 64): lambda g, t, i: (t + 4 * i, g),
    (16, 64): lambda g, t, i: (4 * i + t, g),
    (4, 32): lambda g, t, i: (t, g),
    (8, 32): lambda g, t, i: (t + 4 * i, g),
    (8, 16): lambda g, t, i: (2 * t + i, g),
    (16, 16): lambda g, t, i: (2 * t + (i & 1) + 8 * (i >= 2), g),
    (16, 8): lambda g, t, i: (4 * t + i, g),
    (32, 8): lambda g, t, i: (4 * t + (i & 3) + 16 * (i >= 4), g),
    (32, 4): lambda g, t, i: (8 * t + i, g),
    (64, 4): lambda g, t, i: (8 * t + (i & 7) + 32 * (i >= 8), g),
    (128, 1): lambda g, t, i: (32 * t + i, g),
    (256, 1): lambda g, t, i: (32 * t + (i & 31) + 128 * (i >= 32), g),
}
ACCUMULATOR: dict[int, Formula] = {
    8: lambda g, t, i: (g, 2 * t + i),
    16: lambda g, t, i: (g + 8 * (i >= 2), 2 * t + (i & 1)),
}


def check(fragment: Fragment, formula: Formula) -> None:
    elements = fragment.rows * fragment.columns // 32
    assert fragment.places.shape == (fragment.registers, 32, elements // fragment.registers)
    assert fragment.bits == (64 if fragment.width == 64 else 32)
    for lane in range(32):
        found = [divmod(p, fragment.columns) for p in fragment.places[:, lane].reshape(-1).tolist()]
        assert found == [formula(lane >> 2, lane % 4, i) for i in range(elements)]


@pytest.mark.parametrize("shape", LEFT, ids=str)
def test_left_operands(shape: tuple[int, int, int]) -> None:
    check(left(*shape), LEFT[shape])


@pytest.mark.parametrize("shape", RIGHT, ids=str)
def test_right_operands(shape: tuple[int, int]) -> None:
    check(right(*shape), RIGHT[shape])


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("rows", [8, 16])
def test_accumulators(rows: int, width: int) -> None:
    check(accumulator(rows, width), ACCUMULATOR[rows])


@pytest.mark.parametrize("fragment", [left(16, 16, 16), left(16, 8, 64), right(32, 8), accumulator(16, 32)], ids=str)
def test_registers_and_matrices_are_inverse(fragment: Fragment) -> None:
    rng = np.random.default_rng(0)
    bits = f"u{fragment.width // 8}"
    matrices = rng.integers(0, 1 << min(fragment.width, 62), (3, fragment.rows, fragment.columns)).astype(bits)
    registers = fragment.spread(matrices)
    assert registers.shape == (3, fragment.registers, 32) and registers.itemsize * 8 == fragment.bits
    assert (fragment.matrices(registers) == matrices).all()


# --- ldmatrix, stmatrix, movmatrix ---

START = """
.reg .b32 %t, %l, %w, %s, %x<4>, %k; .reg .b64 %a, %b, %c, %o, %g; .reg .pred %p; .shared .align 16 .b8 tile[2048];
mov.u32 %t, %tid.x; and.b32 %l, %t, 31; mov.u32 %s, tile; mov.u32 %k, %ctaid.x; mov.u32 %w, %ntid.x;
ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; mad.lo.u32 %k, %k, %w, %t; mul.wide.u32 %o, %k, 16; add.u64 %b, %b, %o;
"""
FILL = """
mul.wide.u32 %o, %t, 32; add.u64 %c, %a, %o; shl.b32 %x0, %t, 5; add.u32 %w, %s, %x0;
ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%c]; st.shared.v4.b32 [%w], {%x0, %x1, %x2, %x3};
ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%c+16]; st.shared.v4.b32 [%w+16], {%x0, %x1, %x2, %x3};
bar.sync 0; mov.b32 %x0, 0; mov.b32 %x1, 0; mov.b32 %x2, 0; mov.b32 %x3, 0;
"""
"""64 threads copy the 2048 bytes of `a` to `tile`."""
PUT = "st.global.v4.b32 [%b], {%x0, %x1, %x2, %x3};"
NAMES = "{%x0, %x1, %x2, %x3}"


def listed(count: int) -> str:
    return "{" + ", ".join(f"%x{i}" for i in range(count)) + "}"


def eight_by_eight(matrix: np.ndarray, trans: bool) -> np.ndarray:
    """What each lane holds of a matrix of 16-bit elements, from the ISA's picture: two neighbours of row lane / 4."""
    m = matrix.T if trans else matrix
    pairs = [m[lane // 4, lane % 4 * 2 :][:2].tolist() for lane in range(32)]
    return np.array([low | high << 16 for low, high in pairs], np.uint32)


@pytest.mark.parametrize("space", [".shared", ".shared::cta", ""])
@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count: int, trans: str, space: str) -> None:
    """Each lane of each warp names a row of its own, in an order that is not that of memory; the others name none."""
    rng = np.random.default_rng(count)
    tile = rng.integers(0, 1 << 16, (128, 8)).astype(np.uint16)
    row = [(37 * t + 11) % 128 for t in range(64)]
    body = START + FILL + f"""
        mad.lo.u32 %w, %t, 37, 11; and.b32 %w, %w, 127; shl.b32 %w, %w, 4; add.u32 %w, %w, %s;
        setp.ge.u32 %p, %l, {8 * count}; @%p mov.b32 %w, 0x7ffffff1;
        cvt.u64.u32 %g, %w; {"cvta.shared.u64 %g, %g;" if not space else ""}
        ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 {listed(count)}, [%g];
    """ + PUT  # fmt: skip
    out = np.zeros((2, 32, 4), np.uint32)
    run(body, tile, out, block=64)
    want = np.zeros_like(out)
    for warp in range(2):
        for number in range(count):
            rows = [row[32 * warp + 8 * number + r] for r in range(8)]
            want[warp, :, number] = eight_by_eight(tile[rows], bool(trans))
    assert (out == want).all()


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix(count: int, trans: str) -> None:
    rng = np.random.default_rng(count)
    matrices = rng.integers(0, 1 << 16, (2, count, 8, 8)).astype(np.uint16)
    given = np.zeros((2, 32, 4), np.uint32)
    for warp in range(2):
        for number in range(count):
            given[warp, :, number] = eight_by_eight(matrices[warp, number], bool(trans))
    place = "mul.lo.u32 %w, %t, 5; and.b32 %w, %w, 63; shl.b32 %w, %w, 4; add.u32 %w, %w, %s;"
    body = START + f"""
        mul.wide.u32 %o, %t, 16; add.u64 %a, %a, %o; ld.global.v4.b32 {NAMES}, [%a]; {place}
        stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%w+1024], {listed(count)};
        bar.sync 0; setp.lt.u32 %p, %l, {8 * count}; @%p ld.shared.v4.b32 {NAMES}, [%w+1024];
    """ + PUT  # fmt: skip
    out = np.zeros((2, 32, 8), np.uint16)
    run(body, given, out, block=64)
    assert (out[:, : 8 * count].reshape(2, count, 8, 8) == matrices).all()


def test_movmatrix() -> None:
    matrices = np.random.default_rng(0).integers(0, 1 << 16, (2, 8, 8)).astype(np.uint16)
    given = np.stack([eight_by_eight(m, False) for m in matrices])
    out = np.zeros((2, 32, 4), np.uint32)
    body = START + """
        mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; ld.global.b32 %x1, [%a];
        mov.b32 %x2, 0; mov.b32 %x3, 0; movmatrix.sync.aligned.m8n8.trans.b16 %x0, %x1;
    """ + PUT  # fmt: skip
    run(body, given, out, block=64)
    assert (out[:, :, 0] == np.stack([eight_by_eight(m, True) for m in matrices])).all()


def test_a_warp_that_arrives_in_parts_is_waited_for() -> None:
    """Threads come from a loop that each leaves after some other number of rounds."""
    matrices = np.random.default_rng(0).integers(0, 1 << 16, (2, 8, 8)).astype(np.uint16)
    given = np.stack([eight_by_eight(m, False) for m in matrices])
    out = np.zeros((2, 32, 4), np.uint32)
    body = START + """
        mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; ld.global.b32 %x1, [%a]; mov.b32 %x2, 0; mov.b32 %x3, 0;
        and.b32 %w, %t, 7; L: add.u32 %w, %w, -1; setp.gt.s32 %p, %w, 0; @%p bra L;
        movmatrix.sync.aligned.m8n8.trans.b16 %x0, %x1;
    """ + PUT  # fmt: skip
    run(body, given, out, block=64)
    assert (out[:, :, 0] == np.stack([eight_by_eight(m, True) for m in matrices])).all()
