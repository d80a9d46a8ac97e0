"""The shapes that control flow takes in IR, and what is paid for it. What it computes is tested beside the executor."""

import pytest

from tests.lang.codegen_tools import compile_kernel, names_of, text_of
from tilewright.lang import Operation
from tilewright.lang import language as tl
from tilewright.lang.frontend import device_function


def body_of(text: str) -> list[str]:
    """The lines of the kernel, stripped."""
    lines = text.splitlines()
    return [line.strip() for line in lines[2 : lines.index("}")]]


def only(module, name: str) -> Operation:
    (found,) = (op for op in module.walk() if op.name == name)
    return found


# --- if ---


def test_an_early_return_is_a_clean_if_else() -> None:
    def kernel(p, n):
        if n < 3:
            return
        tl.store(p, n)

    assert body_of(text_of(kernel, p="*i32")) == [
        "%0 = constant {value = 3} : i32",
        "%1 = cmp_lt_s %n, %0 : i1",
        "if %1 {",
        "^then:",
        "yield",
        "^else:",
        "store %p, %n",
        "yield",
        "}",
        "return",
    ]


def test_values_of_early_returns_are_the_results_of_the_if() -> None:
    @device_function
    def choose(n):
        if n < 3:
            return n
        if n > 10:
            return n * 2
        return 7

    def kernel(p, n):
        tl.store(p, choose(n))

    text = text_of(kernel, p="*i32")
    assert text.count("= if") == 2 and "poison" not in text
    module = compile_kernel(kernel, p="*i32")
    assert [op.name for op in module.functions["choose"].body.operations][-2:] == ["if", "return"]


def test_a_conditional_assignment_yields_one_value() -> None:
    def kernel(p, n):
        x = n
        y = n + 1
        if n > 3:
            x = n * 2
        tl.store(p, x + y)

    module = compile_kernel(kernel, p="*i32")
    assert [v.name for v in only(module, "if").results] == ["x"]


def test_constexpr_conditions_leave_one_branch() -> None:
    def kernel(p, n, FLAG: tl.constexpr, name: tl.constexpr):
        if FLAG and n > 0:
            tl.store(p, n)
        elif name == "b":
            unknown_function(n)  # noqa: F821
        if None:
            x = 1
        else:
            x = 2
        if not FLAG:
            return
        tl.store(p, x)

    assert names_of(compile_kernel(kernel, {"FLAG": False, "name": "a"}, p="*i32")) == ["return"]
    assert names_of(compile_kernel(kernel, {"FLAG": True, "name": "a"}, p="*i32")).count("if") == 1


def test_code_after_a_return_is_not_looked_at() -> None:
    def kernel(p, n):
        return
        tl.store(unknown, n)  # noqa: F821

    assert names_of(compile_kernel(kernel)) == ["return"]


def test_a_branch_that_leaves_needs_no_values() -> None:
    def kernel(p, n):
        if n > 3:
            x = tl.arange(0, 8)
            tl.store(p + x, x)
            return
        else:
            x = 1.5
        tl.store(p, x.to(tl.int32))

    assert not only(compile_kernel(kernel, p="*i32"), "if").results


def test_what_may_have_left_is_guarded_by_a_flag() -> None:
    def kernel(p, n):
        if n > 3:
            if n > 5:
                return
            tl.store(p, 1)
        tl.store(p, 2)

    text = text_of(kernel, p="*i32")
    assert text.count("if %") == 3 and "poison" not in text
    outer = next(op for op in compile_kernel(kernel, p="*i32").walk() if op.name == "if")
    assert [str(v.type) for v in outer.results] == ["i1"]


def test_a_one_element_tile_is_a_condition() -> None:
    def kernel(p):
        if tl.load(p + tl.zeros((1, 1), tl.int32)) > 3:
            tl.store(p, 1)

    assert "reshape" in names_of(compile_kernel(kernel, p="*i32"))


def test_numbers_and_pointers_are_conditions() -> None:
    def kernel(p, n, x):
        if n:
            tl.store(p, 1)
        if p:
            tl.store(p, 2)
        if x:
            tl.store(p, 3)

    names = names_of(compile_kernel(kernel, p="*i32", x="fp32"))
    assert (names.count("cmp_ne_i"), names.count("cmp_ne_f"), names.count("ptr_to_int")) == (2, 1, 1)


def test_tuples_and_block_pointers_are_merged() -> None:
    def kernel(p, n):
        pair = (n, (p, 1))
        block = tl.make_block_ptr(p, (n,), (1,), (0,), (8,), (0,))
        if n > 3:
            pair = (n + 1, (p + 1, 1))
            block = tl.advance(block, (8,))
        tl.store(pair[1][0], pair[0] + pair[1][1])
        tl.store(block, 1, boundary_check=(0,))

    results = only(compile_kernel(kernel, p="*i32"), "if").results
    assert [(v.name, str(v.type)) for v in results] == [
        ("pair", "i32"),
        ("pair", "ptr<i32>"),
        ("pair", "i32"),
        ("block", "i32"),
    ]


def test_a_parameter_that_is_1_may_change_in_a_branch_and_in_a_loop() -> None:
    def kernel(p, n, one):
        m = one
        if n > 3:
            one = n
        for _ in range(n):
            m = m * 2
        tl.store(p, one + m)

    names = names_of(compile_kernel(kernel, {"one": 1}, p="*i32"))
    assert names.count("if") == 1 and names.count("for") == 1


# --- conditional expressions ---


def test_the_arms_of_a_conditional_expression_run_lazily() -> None:
    def kernel(p, n):
        tl.store(p, tl.load(p + 1) if n > 3 else 0)

    operation = only(compile_kernel(kernel, p="*i32"), "if")
    assert [op.name for op in operation.regions[0].operations][-2:] == ["load", "yield"]
    assert [op.name for op in operation.regions[1].operations] == ["constant", "yield"]


def test_a_constexpr_conditional_expression_evaluates_one_arm() -> None:
    def kernel(p, FLAG: tl.constexpr):
        tl.store(p, 1 if FLAG else unknown)  # noqa: F821

    assert "if" not in names_of(compile_kernel(kernel, {"FLAG": True}, p="*i32"))


# --- for ---


def test_a_plain_loop_carries_what_changes_only() -> None:
    def kernel(p, n):
        a = n
        b = n * 2
        for i in range(n):
            c = b + i
            b = b if n > 0 and False else b
            a = a + c
        tl.store(p, a + b)

    loop = only(compile_kernel(kernel, p="*i32"), "for")
    assert [v.name for v in loop.regions[0].arguments] == ["i", "a"]


def test_the_advice_of_tl_range_reaches_the_loop() -> None:
    def kernel(p, n):
        for i in tl.range(0, n, 2, num_stages=3, loop_unroll_factor=4, flatten=True, disable_licm=True):
            tl.store(p + i, i)

    attributes = only(compile_kernel(kernel, p="*i32"), "for").attributes
    given = {"num_stages": 3, "unroll": 4, "flatten": True, "disable_licm": True}
    assert {name: attributes[name] for name in given} == given
    assert attributes["warp_specialize"] is False and attributes["unsigned"] is False


@pytest.mark.parametrize(
    ("types", "index", "unsigned"), [("i64 i32", "i64", False), ("u32 i32", "i64", False), ("u8 u8", "i8", True)]
)
def test_the_loop_variable_has_the_promoted_type_of_the_bounds(types: str, index: str, unsigned: bool) -> None:
    def kernel(p, n, m):
        for i in range(n, m, n):
            tl.store(p + i, 1)

    n, m = types.split()
    loop = only(compile_kernel(kernel, p="*i32", n=n, m=m), "for")
    assert (str(loop.regions[0].arguments[0].type), loop.attributes["unsigned"]) == (index, unsigned)


def test_a_loop_variable_with_a_value_before_keeps_its_last_one() -> None:
    def kernel(p, n):
        i = -1
        for i in range(n):  # noqa: B007
            pass
        tl.store(p, i)

    loop = only(compile_kernel(kernel, p="*i32"), "for")
    assert [v.name for v in loop.regions[0].arguments] == ["i", "i"]


def test_static_range_unrolls_with_compile_time_indices() -> None:
    def kernel(p):
        for i in tl.static_range(3):
            k: tl.constexpr = 2**i
            tl.store(p + tl.arange(0, k), i)
        tl.static_assert(i == 2)

    text = text_of(kernel, p="*i32")
    assert [f"end = {2**i}" in text for i in range(4)] == [True, True, True, False]
    assert "for" not in names_of(compile_kernel(kernel, p="*i32"))


def test_a_tuple_is_unrolled_too() -> None:
    def kernel(p, n):
        for x, k in ((n, 4), (n + 1, 8)):
            tl.store(p + tl.arange(0, k), x)

    assert names_of(compile_kernel(kernel, p="*i32")).count("store") == 2


def test_a_static_break_ends_the_unrolling() -> None:
    def kernel(p):
        for i in tl.static_range(10):
            if i == 1:
                continue
            if i == 3:
                break
            tl.store(p, i)

    module = compile_kernel(kernel, p="*i32")
    assert names_of(module).count("store") == 2 and "if" not in names_of(module)


def test_a_continue_keeps_the_for() -> None:
    def kernel(p, n):
        for i in range(n):
            if i == 3:
                continue
            tl.store(p, i)

    names = names_of(compile_kernel(kernel, p="*i32"))
    assert (names.count("for"), names.count("while"), names.count("if")) == (1, 0, 1)


def test_a_break_makes_a_while_with_one_flag() -> None:
    def kernel(p, n):
        for i in range(n):
            if i == 3:
                break
            tl.store(p, i)

    loop = only(compile_kernel(kernel, p="*i32"), "while")
    assert [v.name for v in loop.regions[0].arguments] == ["i", "go"]
    assert [op.name for op in loop.regions[0].operations] == ["condition"]


def test_a_return_in_a_loop_carries_its_value_out() -> None:
    @device_function
    def find(n):
        for i in range(n):
            if i * i > n:
                return i
        return -1

    def kernel(p, n):
        tl.store(p, find(n))

    module = compile_kernel(kernel, p="*i32")
    loop = only(module, "while")
    assert [v.name for v in loop.regions[0].arguments] == ["i", "go", "returned", "result"]
    assert [op.name for op in module.functions["find"].walk()].count("if") == 1  # after the loop; none inside


# --- while ---


def test_a_plain_while_has_no_flags() -> None:
    def kernel(p, n):
        while n > 1:
            n = n // 2
        tl.store(p, n)

    loop = only(compile_kernel(kernel, p="*i32"), "while")
    assert [v.name for v in loop.regions[0].arguments] == ["n"]


def test_a_pure_condition_is_anded_with_the_stop_flag() -> None:
    def kernel(p, n):
        while n > 1:
            n = n // 2
            if n == 5:
                break
        tl.store(p, n)

    before = only(compile_kernel(kernel, p="*i32"), "while").regions[0]
    assert "if" not in [op.name for op in before.operations]


def test_a_condition_with_effects_is_not_evaluated_after_a_break() -> None:
    def kernel(p, n):
        while tl.atomic_add(p, 1) < n:
            if n == 5:
                break
        tl.store(p, n)

    before = only(compile_kernel(kernel, p="*i32"), "while").regions[0]
    branch = next(op for op in before.operations if op.name == "if")
    assert "atomic_rmw" in [op.name for op in branch.regions[1].operations]
    assert [op.name for op in branch.regions[0].operations] == ["constant", "yield"]


def test_names_that_the_condition_defines_live_in_the_loop_and_after_it() -> None:
    def kernel(p, n):
        while (x := tl.load(p + n)) > 3:
            n = n + x
        tl.store(p, x + n)

    loop = only(compile_kernel(kernel, p="*i32"), "while")
    assert [v.name for v in loop.results] == ["n", "x"]


def test_tl_condition_carries_its_advice() -> None:
    def kernel(p, n):
        while tl.condition(n > 1, disable_licm=True):
            n = n - 1
        tl.store(p, n)

    assert only(compile_kernel(kernel, p="*i32"), "while").attributes["disable_licm"] is True


def test_a_while_that_is_never_entered_leaves_nothing() -> None:
    def kernel(p, n):
        while False:
            n = unknown  # noqa: F821
        else:
            tl.store(p, n)

    assert names_of(compile_kernel(kernel, p="*i32")) == ["store", "return"]


def test_after_while_true_only_the_return_is_left() -> None:
    @device_function
    def search(p):
        i = 0
        while True:
            if tl.load(p + i) == 0:
                return i
            i += 1

    def kernel(p):
        tl.store(p, search(p))

    module = compile_kernel(kernel, p="*i32")
    assert [str(t) for t in module.functions["search"].result_types] == ["i32"]


def test_long_chains_of_elif_and_of_early_returns_compile() -> None:
    def kernel(p, n, COUNT: tl.constexpr):
        for i in tl.static_range(COUNT):
            if n == i:
                return
            tl.store(p + i, i)

    names = names_of(compile_kernel(kernel, {"COUNT": 30}, p="*i32"))
    assert names.count("store") == 30
