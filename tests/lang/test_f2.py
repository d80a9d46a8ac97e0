"""F2 linear algebra against enumeration of all vectors."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilewright.lang import f2

MATRICES = st.lists(st.integers(0, 31), max_size=6)


def images(columns: list[int]) -> list[int]:
    """The image of every vector, by the definition of the product."""
    table = [0]
    for column in columns:
        table += [value ^ column for value in table]
    return table


@given(MATRICES)
def test_multiply_and_rank(columns: list[int]) -> None:
    table = images(columns)
    assert [f2.multiply(columns, x) for x in range(len(table))] == table
    assert 1 << f2.rank(columns) == len(set(table))


@given(MATRICES, st.integers(0, 31))
def test_solve_finds_the_solution_without_free_variables(columns: list[int], target: int) -> None:
    pivots = f2.eliminate(columns).pivots
    solutions = [x for x, value in enumerate(images(columns)) if value == target and not x & ~pivots]
    assert len(solutions) <= 1
    assert f2.solve(columns, target) == (solutions[0] if solutions else None)


@given(MATRICES)
def test_pivots_are_the_columns_independent_of_earlier_ones(columns: list[int]) -> None:
    expected = [column not in images(columns[:i]) for i, column in enumerate(columns)]
    pivots = f2.eliminate(columns).pivots
    assert [bool(pivots >> i & 1) for i in range(len(columns))] == expected


@given(MATRICES)
def test_kernel_spans_the_solutions_of_zero(columns: list[int]) -> None:
    kernel = f2.eliminate(columns).kernel
    assert sorted(images(list(kernel))) == [x for x, value in enumerate(images(columns)) if value == 0]


@given(MATRICES)
def test_rref_is_the_reduced_basis(columns: list[int]) -> None:
    basis = f2.rref(columns)
    assert set(images(list(basis))) == set(images(columns)) and len(basis) == f2.rank(columns)
    assert list(basis) == sorted(basis)
    leading = [1 << (row.bit_length() - 1) for row in basis]
    assert all(bool(row & bit) == (i == j) for i, row in enumerate(basis) for j, bit in enumerate(leading))


@given(MATRICES, st.randoms(use_true_random=False))
def test_rref_depends_on_the_span_only(columns: list[int], random: object) -> None:
    mixed = [*columns, *images(columns)[:8]]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert f2.rref(mixed) == f2.rref(columns)


@given(st.integers(0, 255), st.permutations(range(8)))
def test_scatter_undoes_gather(vector: int, positions: list[int]) -> None:
    picked = f2.gather(vector, positions)
    assert [picked >> k & 1 for k in range(8)] == [vector >> p & 1 for p in positions]
    assert f2.scatter(picked, positions) == vector
