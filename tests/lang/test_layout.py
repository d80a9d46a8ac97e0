"""Linear layouts against brute force: every map is compared with its table over all inputs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.lang.layout import LayoutError, LinearLayout
from tilewright.lang.layout_text import parse_layout, scan_layout

IN_NAMES = ["register", "lane", "warp"]
OUT_NAMES = ["dim0", "dim1", "dim2"]

Dims = tuple[tuple[str, int], ...]


@st.composite
def dims(draw: st.DrawFn, names: list[str], max_bits: int = 2, min_count: int = 0) -> Dims:
    chosen = draw(st.lists(st.sampled_from(names), unique=True, min_size=min_count))
    return tuple((name, 1 << draw(st.integers(0, max_bits))) for name in chosen)


def total(sizes: Dims) -> int:
    return int(np.prod([size for _, size in sizes], dtype=int))


@st.composite
def layouts(draw: st.DrawFn, ins: Any = None, outs: Any = None) -> LinearLayout:
    ins = draw(dims(IN_NAMES)) if ins is None else ins
    outs = draw(dims(OUT_NAMES)) if outs is None else outs
    flat = st.integers(0, total(outs) - 1)
    columns = [draw(flat) for _ in range(total(ins).bit_length() - 1)]
    return LinearLayout(ins, outs, tuple(columns), draw(flat))


@st.composite
def bijections(draw: st.DrawFn) -> LinearLayout:
    """A random permutation of unit vectors, then random column additions (each invertible)."""
    ins = draw(dims(IN_NAMES))
    bits = total(ins).bit_length() - 1
    columns = [1 << p for p in draw(st.permutations(range(bits)))]
    pairs = st.tuples(st.integers(0, max(bits - 1, 0)), st.integers(0, max(bits - 1, 0)))
    for a, b in draw(st.lists(pairs, max_size=8)):
        if a != b:
            columns[a] ^= columns[b]
    cut = draw(st.integers(0, bits))
    outs = (("dim0", 1 << cut), ("dim1", 1 << (bits - cut)))
    return LinearLayout(ins, outs, tuple(columns), draw(st.integers(0, (1 << bits) - 1)))


def points(sizes: Dims) -> dict[str, np.ndarray]:
    """Every point of the dimensions, the first varying fastest."""
    if not sizes:
        return {}
    index = np.unravel_index(np.arange(total(sizes)), [size for _, size in sizes], order="F")
    return {name: component for (name, _), component in zip(sizes, index, strict=True)}


def flatten(sizes: Dims, point: dict[str, Any], count: int) -> np.ndarray:
    if not sizes:
        return np.zeros(count, int)
    components = [np.broadcast_to(point[name], (count,)) for name, _ in sizes]
    return np.ravel_multi_index(components, [size for _, size in sizes], order="F")


def table(layout: LinearLayout) -> np.ndarray:
    """Flat output for every flat input."""
    return flatten(layout.outs, layout.apply(points(layout.ins)), total(layout.ins))


def brute_force(layout: LinearLayout) -> list[tuple[int, ...]]:
    """Output vectors for every input, straight from the definition and the printed bases."""
    text = str(layout)
    offset = eval(text.rsplit("^", 1)[1].rstrip("> ")) if "^" in text else [0] * len(layout.outs)
    vectors = [basis for bases in layout.bases.values() for basis in bases]
    results = []
    for x in range(1 << len(vectors)):
        value = list(offset)
        for i, vector in enumerate(vectors):
            if x >> i & 1:
                value = [a ^ b for a, b in zip(value, vector, strict=True)]
        results.append(tuple(value))
    return results


def small(text: str) -> LinearLayout:
    return parse_layout(f"#linear<{text}>")


# Known values


def test_a_layout_by_hand() -> None:
    layout = small("register=[[0,1]], lane=[[0,2],[1,0]], warp=[[2,3]] -> [dim0:4, dim1:4]")
    assert layout.shape == (4, 4)
    assert layout.in_names == ("register", "lane", "warp") and layout.out_names == ("dim0", "dim1")
    assert layout.apply({"register": 1, "lane": 3, "warp": 1}) == {"dim0": 3, "dim1": 0}
    assert layout.rank == 4 and layout.is_bijective


def test_layouts_are_values() -> None:
    a, b = small("lane=[[1]] -> [dim0:2]"), LinearLayout.identity(2, "lane", "dim0")
    assert a == b and hash(a) == hash(b) and a != b.rename(ins={"lane": "warp"})
    assert a != small("lane=[[1]] -> [dim0:2] ^ [1]")
    with pytest.raises(AttributeError):
        a.offset = 1  # type: ignore[misc]


def test_numpy_integers_become_plain_ones() -> None:
    layout = LinearLayout.from_bases({"lane": np.eye(2, dtype=np.int8)}, {"dim0": np.int64(2), "dim1": 2})  # type: ignore[arg-type]
    assert str(layout) == "#linear<lane=[[1, 0], [0, 1]] -> [dim0:2, dim1:2]>"


def test_the_layout_without_dimensions() -> None:
    unit = LinearLayout((), (), ())
    assert str(unit) == "#linear<-> []>" and parse_layout(str(unit)) == unit
    assert unit.apply({}) == {} and unit.is_bijective and unit.invert() == unit
    layout = LinearLayout.identity(4, "lane", "dim0")
    assert unit * layout == layout * unit == layout


# Evaluation


@given(layouts())
def test_apply_is_the_definition(layout: LinearLayout) -> None:
    expected = brute_force(layout)
    arrays = layout.apply(points(layout.ins))
    for x, value in enumerate(expected):
        point = {name: int(component[x]) for name, component in points(layout.ins).items()}
        assert tuple(layout.apply(point).values()) == value
    for axis, (name, _) in enumerate(layout.outs):
        assert np.array_equal(np.broadcast_to(arrays[name], len(expected)), [value[axis] for value in expected])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_apply_broadcasts_arrays_of_any_integer_type(dtype: Any) -> None:
    layout = small("lane=[[1],[2],[4]], warp=[[8],[16]] -> [dim0:32] ^ [5]")
    got = layout.apply({"lane": np.arange(8, dtype=dtype), "warp": np.arange(4, dtype=dtype)[:, None]})["dim0"]
    assert got.dtype == np.int64
    assert np.array_equal(got, (np.arange(32) ^ 5).reshape(4, 8))


def test_apply_of_constant_and_empty_arrays() -> None:
    zeros = LinearLayout.zeros(1, "lane", "dim0", 4)
    assert zeros.apply({"lane": np.zeros((2, 3), int)})["dim0"].shape == (2, 3)
    assert zeros.apply({"lane": np.zeros(0, int)})["dim0"].shape == (0,)


# Algebra


@given(st.data())
def test_compose_is_composition_of_tables(data: st.DataObject) -> None:
    middle = data.draw(dims(OUT_NAMES))
    outer = data.draw(layouts(ins=middle))
    inner = data.draw(layouts(outs=tuple(data.draw(st.permutations(middle)))))
    through = inner.transpose(outs=outer.in_names)
    assert np.array_equal(table(outer.compose(inner)), table(outer)[table(through)])


def test_compose_takes_smaller_outputs() -> None:
    outer = LinearLayout.from_bases({"a": [(4,), (2,), (1,)]}, {"b": 8})
    assert str(outer.compose(LinearLayout.identity(4, "x", "a"))) == "#linear<x=[[4], [2]] -> [b:8]>"


@given(layouts(), layouts())
def test_product_acts_on_low_and_high_parts(low: LinearLayout, high: LinearLayout) -> None:
    both = low.product(high)
    x = points(both.ins)
    low_in, high_in, low_out, high_out = (dict(d) for d in (low.ins, high.ins, low.outs, high.outs))
    below = low.apply({name: x[name] % size for name, size in low.ins})
    above = high.apply({name: x[name] // low_in.get(name, 1) for name in high_in})
    got = both.apply(x)
    for name, size in both.outs:
        assert size == low_out.get(name, 1) * high_out.get(name, 1)
        expected = below.get(name, 0) + low_out.get(name, 1) * np.asarray(above.get(name, 0))
        assert np.array_equal(np.broadcast_to(got[name], total(both.ins)), np.broadcast_to(expected, total(both.ins)))


@given(layouts(), layouts(), layouts())
def test_product_is_associative(a: LinearLayout, b: LinearLayout, c: LinearLayout) -> None:
    assert (a * b) * c == a * (b * c)


@given(layouts(), layouts())
def test_divide_undoes_product(low: LinearLayout, high: LinearLayout) -> None:
    both = low * high
    quotient = both.divide(low)
    assert quotient is not None
    assert low * quotient == both
    full = (
        {name for name, size in quotient.ins if size > 1},
        {name for name, size in quotient.outs if size > 1},
    )
    assert full[0] <= set(high.in_names) and full[1] <= set(high.out_names)
    reduced = quotient.sublayout(high.in_names, high.out_names)
    assert reduced == high


def test_divide_finds_every_quotient() -> None:
    """All 2 x 2 bit layouts by all 1 x 1 bit ones: a quotient is found exactly where a search finds one."""
    tiny = [
        LinearLayout((("lane", 2),), (("dim0", 2),), (column,), offset)
        for column, offset in itertools.product(range(2), repeat=2)
    ]
    found = 0
    for a, b, offset in itertools.product(range(4), repeat=3):
        whole = LinearLayout((("lane", 4),), (("dim0", 4),), (a, b), offset)
        for low in tiny:
            assert [q for q in [whole.divide(low)] if q] == [q for q in tiny if low * q == whole]
            found += whole.divide(low) is not None
    assert found == 16


def test_divide_ignores_the_order_of_dimensions() -> None:
    whole = small("register=[[1,0]], lane=[[0,1]] -> [dim0:2, dim1:2]")
    low = LinearLayout.identity(2, "lane", "dim1")
    assert str(whole.divide(low)) == "#linear<register=[[1, 0]], lane=[] -> [dim0:2, dim1:1]>"
    assert whole.divide(LinearLayout.identity(4, "lane", "dim1")) is None
    assert whole.divide(LinearLayout.identity(2, "warp", "dim1")) is None


@given(bijections())
def test_invert_is_the_inverse_permutation(layout: LinearLayout) -> None:
    inverse = layout.invert()
    assert np.array_equal(table(inverse), np.argsort(table(layout)))
    identity = inverse.compose(layout)
    assert np.array_equal(table(identity), np.arange(total(layout.ins))) and identity.offset == 0
    assert inverse.invert() == layout


@given(layouts())
def test_pseudo_invert(layout: LinearLayout) -> None:
    forward, back = table(layout), table(layout.pseudo_invert())
    assert np.array_equal(forward[back[forward]], forward)
    if layout.is_surjective:
        assert np.array_equal(forward[back], np.arange(total(layout.outs)))
        free = flatten(layout.ins, layout.free_variables(), 1)[0] if layout.ins else 0
        assert not np.any(back & free)
    if layout.is_injective:
        assert np.array_equal(back[forward], np.arange(total(layout.ins)))


@given(st.data())
def test_invert_and_compose_is_a_search(data: st.DataObject) -> None:
    """Against a search for the one preimage whose free variables are zero; no names are shared."""
    outs = data.draw(dims(OUT_NAMES))
    source = data.draw(layouts(outs=outs))
    target = data.draw(layouts(ins=data.draw(dims(["offset", "block"])), outs=outs))
    free = int(flatten(target.ins, target.free_variables(), 1)[0]) if target.ins else 0
    wanted, have = table(source) ^ source.offset, table(target) ^ target.offset
    lowest = {int(value): y for y, value in enumerate(have) if not y & free}
    shift = source.offset ^ target.offset
    if any(int(value) not in lowest for value in (*wanted, shift)):
        with pytest.raises(LayoutError, match="does not hold every element"):
            source.invert_and_compose(target)
        return
    conversion = source.invert_and_compose(target)
    assert conversion.ins == source.ins and conversion.outs == target.ins
    assert table(conversion).tolist() == [lowest[int(value) ^ shift] for value in wanted]


@given(st.data())
def test_invert_and_compose_leaves_common_bits_in_place(data: st.DataObject) -> None:
    outs = data.draw(dims(OUT_NAMES))
    source, target = data.draw(layouts(outs=outs)), data.draw(layouts(outs=outs))
    missing = set(table(source)) - set(table(target))
    if missing:
        with pytest.raises(LayoutError):
            source.invert_and_compose(target)
        return
    conversion = source.invert_and_compose(target.transpose(outs=target.out_names[::-1]))
    assert np.array_equal(table(target)[table(conversion)], table(source))
    for name in set(source.in_names) & set(target.in_names):
        own = target.in_names.index(name)
        for i, (a, b) in enumerate(zip(source.bases[name], target.bases[name])):  # noqa: B905
            if a == b:
                unit = tuple((1 << i) * (axis == own) for axis in range(len(target.ins)))
                assert conversion.bases[name][i] == unit


@given(layouts())
def test_conversion_to_itself_moves_nothing(layout: LinearLayout) -> None:
    conversion = layout.invert_and_compose(layout)
    assert np.array_equal(table(conversion), np.arange(total(layout.ins)))
    for name in layout.in_names:
        rest = conversion.quotient(name)
        assert rest is not None and name not in rest.in_names
        conversion = rest
    assert conversion == LinearLayout((), (), ())


def test_quotient_refuses_what_is_no_identity() -> None:
    swap = small("lane=[[0,1]], warp=[[1,0]] -> [lane:2, warp:2]")
    mixed = small("lane=[[1,0]], warp=[[1,1]] -> [lane:2, warp:2]")
    shifted = small("lane=[[1,0]], warp=[[0,1]] -> [lane:2, warp:2] ^ [0,1]")
    resized = small("lane=[[1,0]], warp=[[0,1]] -> [lane:2, warp:4]")
    assert [swap.quotient("warp"), mixed.quotient("warp"), mixed.quotient("lane")] == [None] * 3
    assert shifted.quotient("warp") is None and resized.quotient("warp") is None
    assert str(shifted.quotient("lane")) == "#linear<warp=[[1]] -> [warp:2] ^ [1]>"


# Dimensions


@given(st.data())
def test_transpose_keeps_values_by_name(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    ins = data.draw(st.permutations(layout.in_names))
    outs = data.draw(st.permutations(layout.out_names))
    moved = layout.transpose(ins, outs)
    assert list(moved.in_names) == ins and list(moved.out_names) == outs
    expected, got = layout.apply(points(layout.ins)), moved.apply(points(layout.ins))
    assert all(np.array_equal(got[name], expected[name]) for name in outs)
    assert moved.transpose(layout.in_names, layout.out_names) == layout


@given(st.data())
def test_sublayout_holds_the_other_inputs_at_zero(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    ins = data.draw(st.permutations(layout.in_names))[: data.draw(st.integers(0, len(layout.ins)))]
    outs = data.draw(st.permutations(layout.out_names))[: data.draw(st.integers(0, len(layout.outs)))]
    part = layout.sublayout(ins, outs)
    x = points(part.ins)
    expected = layout.apply({name: x.get(name, 0) for name in layout.in_names})  # type: ignore[misc]
    got = part.apply(x)
    assert list(got) == outs
    assert all(np.array_equal(got[name], expected[name]) for name in outs)


@given(st.data())
def test_reshapes_follow_numpy(data: st.DataObject) -> None:
    layout = data.draw(
        layouts(ins=data.draw(dims(IN_NAMES, min_count=1)), outs=data.draw(dims(OUT_NAMES, min_count=1)))
    )
    bits = total(layout.outs).bit_length() - 1
    cut = data.draw(st.integers(0, bits))
    new_outs = {"a": 1 << cut, "b": 1 << (bits - cut)}
    old, new = layout.apply(points(layout.ins)), layout.reshape_outs(new_outs).apply(points(layout.ins))
    old_flat = np.ravel_multi_index([np.asarray(old[name]) for name in layout.out_names], layout.shape)
    new_flat = np.ravel_multi_index([np.asarray(new["a"]), np.asarray(new["b"])], tuple(new_outs.values()))
    assert np.array_equal(old_flat, new_flat)
    joined = layout.reshape_ins({"all": total(layout.ins)})
    assert np.array_equal(table(joined), table(layout))


@given(st.data())
def test_window_is_a_slice_of_the_table(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    sizes = {name: data.draw(st.sampled_from([s for s in (1, 2, 4) if s <= size])) for name, size in layout.ins}
    start = {name: sizes[name] * data.draw(st.integers(0, size // sizes[name] - 1)) for name, size in layout.ins}
    view = layout.window(start, sizes)
    shifted = {name: x + start[name] for name, x in points(view.ins).items()}
    count = total(view.ins)
    assert np.array_equal(table(view), flatten(layout.outs, layout.apply(shifted), count))
    assert layout.window({}, {}) == layout


# Rank and replicas


@given(layouts())
def test_rank_against_counting(layout: LinearLayout) -> None:
    distinct = len(set(table(layout)))
    assert 1 << layout.rank == distinct
    assert layout.is_surjective == (distinct == total(layout.outs))
    assert layout.is_injective == (distinct == total(layout.ins))
    assert layout.is_bijective == (total(layout.outs) == distinct == total(layout.ins))


@given(layouts())
def test_free_variables_leave_one_of_each(layout: LinearLayout) -> None:
    free = int(flatten(layout.ins, layout.free_variables(), 1)[0]) if layout.ins else 0
    values = table(layout)
    once = [int(value) for x, value in enumerate(values) if not x & free]
    assert sorted(once) == sorted(set(values))


def span(vectors: list[int]) -> set[int]:
    sums = {0}
    for vector in vectors:
        sums |= {value ^ vector for value in sums}
    return sums


@given(layouts())
def test_kernel_and_image_against_counting(layout: LinearLayout) -> None:
    linear = table(layout) ^ layout.offset
    kernel = [int(flatten(layout.ins, vector, 1)[0]) for vector in layout.kernel()]
    image = [int(flatten(layout.outs, vector, 1)[0]) for vector in layout.image()]
    assert span(kernel) == {x for x, value in enumerate(linear) if value == 0}
    assert span(image) == {int(value) for value in linear}
    assert len(kernel) + len(image) == total(layout.ins).bit_length() - 1


@given(bijections(), st.data())
def test_equal_images_have_equal_bases(mix: LinearLayout, data: st.DataObject) -> None:
    layout = data.draw(layouts(ins=mix.outs))
    assert layout.compose(mix).image() == layout.image()


# Text


@given(layouts())
def test_text_round_trip(layout: LinearLayout) -> None:
    text = str(layout)
    assert parse_layout(text) == layout
    assert str(parse_layout(text)) == text
    assert eval(repr(layout)) == layout
    assert parse_layout(text.replace(" ", "")) == layout
    assert parse_layout("\n" + text.replace(",", " ,\n ").replace("]", " ]")) == layout


@given(layouts(), st.text(max_size=5), st.text(max_size=5))
def test_scan_finds_the_end_inside_other_text(layout: LinearLayout, before: str, after: str) -> None:
    text = f"{before}{layout}{after}"
    found, end = scan_layout(text, len(before))
    assert found == layout and text[end:] == after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected '#linear<', found the end"),
        ("#linear<lane=[[1]] -> [dim0:2]", "column 31: expected '>', found the end"),
        ("#linear<lane=[[1] -> [dim0:2]>", "column 19: expected ']', found '->'"),
        ("#linear<lane=[1] -> [dim0:2]>", "column 15: expected '[', found '1'"),
        ("#linear<lane=[[x]] -> [dim0:2]>", "column 16: expected a number, found 'x'"),
        ("#linear<3=[[1]] -> [dim0:2]>", "column 9: expected the name of an input dimension, found '3'"),
        ("#linear<lane=[[1]] -> [2]>", "column 24: expected the name of an output dimension, found '2'"),
        ("#linear<lane=[[1]] -> [dim0:-2]>", "column 29: expected a number, found '-'"),
        ("#linear<-> []> x", "column 15: unexpected 'x' after the layout"),
        ("#linear<lane=[], lane=[] -> []>", "one of lane, lane appears twice"),
        ("#linear<lane=[[1]] -> [dim0:3]>", "size 3 of output dimension 'dim0' is not a power of two"),
        ("#linear<lane=[[2]] -> [dim0:2]>", "component 2 lies outside 'dim0' of size 2"),
        ("#linear<lane=[[1, 1]] -> [dim0:2]>", "should have 1 components"),
    ],
)
def test_text_errors(text: str, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        parse_layout(text)
    assert message in str(caught.value)


# Errors

LANE4 = LinearLayout.identity(4, "lane", "dim0")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearLayout.identity(3, "lane", "dim0"), "size 3 of input dimension 'lane' is not a power"),
        (lambda: LinearLayout.identity(0, "lane", "dim0"), "size 0 of input dimension 'lane'"),
        (lambda: LinearLayout.zeros(2, "lane", "dim0", 6), "size 6 of output dimension 'dim0'"),
        (lambda: LinearLayout.identity(2, "a b", "dim0"), "'a b' is not a name"),
        (lambda: LinearLayout((("x", 1), ("x", 1)), (), ()), "'x' appears twice"),
        (lambda: LinearLayout((("x", 4),), (), (0,)), "1 columns for 2 input bits"),
        (lambda: LinearLayout((("x", 2),), (("y", 2),), (2,)), "flat point 2 lies outside the 2 points"),
        (lambda: LinearLayout((), (("y", 2),), (), -1), "flat point -1 lies outside"),
        (lambda: LinearLayout.identity(1 << 63, "x", "y"), "63 bits in all, more than 62"),
        (lambda: LinearLayout.from_bases({"lane": [(1,)]}, {"a": 2, "b": 2}), "should have 2 components"),
        (lambda: LANE4.apply({}), "no value for input dimension 'lane'"),
        (lambda: LANE4.apply({"lane": 0, "warp": 0}), "no input dimension 'warp'; there are: lane"),
        (lambda: LANE4.apply({"lane": 4}), "outside its size 4"),
        (lambda: LANE4.apply({"lane": np.array([0, -1])}), "outside its size 4"),
        (lambda: LANE4.apply({"lane": np.array([2**64 - 1], np.uint64)}), "outside its size 4"),
        (lambda: LANE4.apply({"lane": np.array([0.5])}), "are not integers but float64"),
        (lambda: LANE4.sublayout(["warp"], []), "no input dimension 'warp'"),
        (lambda: LANE4.sublayout([], ["dim0", "dim0"]), "'dim0' is named twice"),
        (lambda: LANE4.transpose(outs=[]), "names each dimension once"),
        (lambda: LANE4.rename(outs={"dim1": "x"}), "no output dimension 'dim1'; there are: dim0"),
        (lambda: (LANE4 * LinearLayout.zeros(1, "a", "b")).rename(ins={"a": "lane"}), "'lane' appears twice"),
        (lambda: LANE4.reshape_ins({"lane": 8}), "[lane:4] cannot be reshaped to [lane:8]"),
        (lambda: LANE4.reshape_outs({"dim0": 2}), "[dim0:4] cannot be reshaped to [dim0:2]"),
        (lambda: LANE4.reshape_outs({"dim0": 6}), "size 6 of output dimension 'dim0'"),
        (lambda: LANE4.window({"lane": 1}, {"lane": 2}), "no aligned window of 2 elements at 1"),
        (lambda: LANE4.window({}, {"lane": 8}), "no aligned window of 8 elements"),
        (lambda: LANE4.window({"lane": 4}, {"lane": 4}), "outside its size 4"),
        (lambda: LANE4.window({}, {"lane": 3}), "size 3 of window dimension 'lane'"),
        (lambda: LANE4.compose(LANE4), "outputs [dim0:4] do not fit the inputs [lane:4]"),
        (lambda: LANE4.compose(LinearLayout.identity(8, "x", "lane")), "outputs [lane:8] do not fit"),
        (lambda: LANE4.quotient("lane"), "no output dimension 'lane'"),
        (lambda: LinearLayout.zeros(2, "x", "y").invert(), "1 input bits, 0 output bits, rank 0"),
        (
            lambda: LANE4.invert_and_compose(LANE4.rename(outs={"dim0": "dim1"})),
            "[dim0:4] and [dim1:4] differ",
        ),
    ],
)
def test_errors_say_what_is_wrong(make: Any, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        make()
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError)
