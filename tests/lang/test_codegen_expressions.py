"""Expressions and simple statements: what is known at compile time, what is not, and what is evaluated when."""

import math
import warnings

import pytest

from tests.lang.codegen_tools import compile_kernel, names_of, text_of
from tilewright.lang import language as tl
from tilewright.lang.frontend import TileLogicWarning, constexpr_function, device_function


@constexpr_function
def joined(*parts, sep="-"):
    return sep.join(map(str, parts))


def test_a_plain_assignment_makes_numbers_runtime_values() -> None:
    def kernel(p):
        x = 3
        y = 2.0
        z = True
        t = (1, (2.0, None), tl.int8)
        tl.static_assert(isinstance(x, tl.tensor) and x.dtype == tl.int32 and y.dtype == tl.float32)
        tl.static_assert(z.dtype == tl.int1 and t[0].dtype == tl.int32 and t[1][0].dtype == tl.float32)
        tl.static_assert(t[1][1] is None and t[2] == tl.int8)

    assert names_of(compile_kernel(kernel)) == ["return"]


def test_annotated_constexprs_stay_known() -> None:
    def kernel(p):
        x: tl.constexpr = 3
        y: tl.constexpr
        y = x + 5
        z: int = 2
        tl.static_assert(isinstance(x, tl.constexpr) and y == 8 and isinstance(z, tl.tensor))
        tl.store(p + tl.arange(0, y), x)

    assert "end = 8" in text_of(kernel, p="*i32")


def test_literals_are_weak_and_variables_are_not() -> None:
    def kernel(p):
        x = tl.load(p)
        three = 3
        tl.static_assert((x + 3).dtype == tl.int8 and (x + three).dtype == tl.int32)

    assert names_of(compile_kernel(kernel, p="*i8"))[-1] == "return"


def test_every_operator_of_numbers_works_at_compile_time() -> None:
    def kernel():
        tl.static_assert((7 + 2, 7 - 2, 7 * 2, 7 / 2, 7 // 2, 7 % 2, 7**2) == (9, 5, 14, 3.5, 3, 1, 49))
        tl.static_assert((6 & 3, 6 | 3, 6 ^ 3, 6 << 1, 6 >> 1, -6, +6, ~6) == (2, 7, 5, 12, 3, -6, 6, -7))
        tl.static_assert((1 < 2 <= 2) and not (1 > 2) and (1 != 2) and (1 != None) and 3 in (1, 2, 3) and 4 not in (1,))
        tl.static_assert(((1, 2) + (3,), "a" + "b", (1, 2, 3)[1:], (1, 2, 3)[-1]) == ((1, 2, 3), "ab", (2, 3), 3))

    assert names_of(compile_kernel(kernel)) == ["return"]


def test_every_operator_of_tensors() -> None:
    def kernel(p, n):
        x = n + 1 - n * 2
        x = (x // 3 % n) & 7 | n ^ 1
        x = x << 2 >> n
        x = -x + ~x + +x
        tl.store(p, x)

    names = names_of(compile_kernel(kernel, p="*i32"))
    expected = ["add_i", "sub_i", "mul_i", "div_s", "rem_s", "and", "or", "xor", "shl", "shr_s"]
    assert [name for name in expected if name not in names] == []


def test_augmented_assignment_of_every_kind() -> None:
    def kernel(p, n):
        n += 1
        n -= 2
        n *= 3
        n //= 4
        n %= 5
        n &= 6
        n |= 7
        n ^= 8
        n <<= 1
        n >>= 1
        tl.store(p, n)

    assert len(names_of(compile_kernel(kernel, p="*i32"))) == 22


def test_a_chained_comparison_evaluates_its_middle_once() -> None:
    def kernel(p, n):
        tl.store(p, 0 < tl.load(p) <= n)

    names = names_of(compile_kernel(kernel, p="*i32"))
    assert (names.count("load"), names.count("and")) == (1, 1)


def test_what_is_known_to_be_false_ends_a_comparison_and_an_and() -> None:
    def kernel(p, n):
        a = 2 < 1 < unknown  # noqa: F821
        b = False and unknown  # noqa: F821
        c = 3 or unknown  # noqa: F821
        tl.static_assert(a.dtype == tl.int1 and c.dtype == tl.int32)
        tl.store(p, a.to(tl.int32) + b + c)

    assert "load" not in names_of(compile_kernel(kernel, p="*i32"))


def test_logic_of_runtime_values_is_on_int1() -> None:
    def kernel(p, n, x):
        tl.store(p, n and x > 2 or not n)

    names = names_of(compile_kernel(kernel, p="*i1", x="fp32"))
    assert (names.count("and"), names.count("or"), names.count("cmp_ne_i")) == (1, 1, 2)


def test_logic_of_tiles_works_with_a_warning() -> None:
    def kernel(p, n):
        offsets = tl.arange(0, 8)
        tl.store(p + offsets, offsets, mask=offsets > 2 and offsets < n)

    with pytest.warns(TileLogicWarning, match="`and` of tiles works element by element") as caught:
        names = names_of(compile_kernel(kernel, p="*i32"))
    assert "and" in names
    assert caught[0].filename == __file__ and caught[0].lineno == kernel.__code__.co_firstlineno + 2


def test_unpacking_nests_and_chains() -> None:
    def kernel(p, n):
        a, (b, [c, d]) = n, (n + 1, (2, None))
        e = f = a + c
        b, a = a, b
        tl.static_assert(d is None)
        tl.store(p + b, a + e + f)

    assert "store" in names_of(compile_kernel(kernel, p="*i32"))


def test_walrus_assigns_and_decays() -> None:
    def kernel(p, n):
        tl.store(p, (x := n + 1) * x)
        tl.static_assert((y := 3).dtype == tl.int32 and isinstance(y, tl.tensor))

    assert names_of(compile_kernel(kernel, p="*i32")).count("add_i") == 1


def test_lists_are_tuples_and_comprehensions_unroll() -> None:
    def kernel(p, n):
        values = [n, n + 1, n + 2]
        pairs = [(i, v * i) for i, v in ((0, values[0]), (1, values[1]), (2, values[2])) if i != 1]
        products = [i * j for i in tl.static_range(2) for j in range(3)]
        tl.static_assert(len(values) == 3 and len(pairs) == 2 and len(products) == 6)
        tl.store(p, pairs[1][1] + products[5])

    assert names_of(compile_kernel(kernel, p="*i32")).count("mul_i") == 1


def test_the_variables_of_a_comprehension_are_its_own() -> None:
    def kernel(p, n):
        values: tl.constexpr = [n * 2 for n in (1, 2) if [n for n in ()] == ()]
        tl.static_assert(values == (2, 4) and [m for m in ()] == ())
        tl.store(p, n)

    assert names_of(compile_kernel(kernel, p="*i32")) == ["store", "return"]


def test_f_strings_are_for_compile_time_values() -> None:
    def kernel(n, K: tl.constexpr):
        tl.device_print(f"K = {K:>4} {K!r} {joined(K, 'x', sep='+')} {1 / 3:.{K}f}: ", n)

    assert '"K =    3 3 3+x 0.333: "' in text_of(kernel, {"K": 3})


def test_builtins_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    def kernel(p, n):
        tl.static_assert((min(3, 1, 2), max(3, 1, 2), max((4, 5))) == (1, 3, 5))
        tl.static_assert((int(3.7), int("10", 2), float("inf") > 1, bool(2), abs(-3)) == (3, 2, True, True, 3))
        tl.static_assert(
            (len((1, 2)), len(tl.arange(0, 8)), str(3), list((1, 2)), tuple([1])) == (2, 8, "3", (1, 2), (1,))
        )
        tl.static_assert(isinstance(3, int) and isinstance(n, tl.tensor) and not isinstance(n, (tl.constexpr, int)))
        tl.static_assert(n.dtype == tl.int32 and getattr(n, "none", 5) == 5 and not hasattr(n, "none"))
        tl.static_print("known", 3, sep=":")
        print("n is ", n)
        tl.store(p, min(n, 3, n + 1) + max(n, 4) + abs(n))

    names = names_of(compile_kernel(kernel, p="*i32"))
    assert (names.count("min_s"), names.count("max_s"), names.count("abs_i"), names.count("print")) == (2, 1, 1, 1)
    assert capsys.readouterr().out == "known:3\n"


def test_methods_and_attributes_of_values() -> None:
    def kernel(p, q, n):
        x = tl.load(p + tl.arange(0, 8)[:, None] * 4 + tl.arange(0, 4)[None, :])
        y = x.to(q.dtype.element_ty).T
        tl.static_assert(y.shape == (4, 8) and y.shape[0] == 4 and y.dtype.is_fp16() and y.type.scalar == tl.float16)
        tl.store(q, y.sum(0).max(axis=0))

    assert "permute" in names_of(compile_kernel(kernel, p="*fp32", q="*fp16"))


def test_docstrings_pass_and_ellipsis_do_nothing() -> None:
    def kernel(n):
        """Nothing."""
        pass
        ...

    assert names_of(compile_kernel(kernel)) == ["return"]


def test_math_works_on_compile_time_numbers() -> None:
    def kernel():
        tl.static_assert(math.ceil(math.sqrt(10)) == 4 and f"{math.floor(2.5)}" == "2")

    assert names_of(compile_kernel(kernel)) == ["return"]


def test_a_reduction_takes_a_device_function_and_a_region() -> None:
    @device_function
    def larger(a, b):
        if a > b:
            return a
        return b

    def kernel(p):
        tl.store(p, tl.reduce(tl.arange(0, 8), 0, larger))

    module = compile_kernel(kernel, p="*i32")
    (reduce,) = (op for op in module.walk() if op.name == "reduce")
    assert [op.name for op in reduce.regions[0].operations] == ["cmp_gt_s", "if", "yield"]
    assert reduce.regions[0].operations[0].location.caller is not None


def test_no_warnings_in_plain_code() -> None:
    def kernel(p, n):
        x = n > 2 and n < 5
        tl.store(p, x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_kernel(kernel, p="*i1")
