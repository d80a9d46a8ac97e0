"""Comparisons, which yield i1, and the choice between two values."""

from __future__ import annotations

from ..types import FLOATS, I1, INTS, NUMBERS, POINTERS
from .rules import elementwise

CMP_EQ_I = elementwise("cmp_eq_i", "a b", INTS, "a == b.", result=I1)
CMP_NE_I = elementwise("cmp_ne_i", "a b", INTS, "a != b.", result=I1)
CMP_LT_S = elementwise("cmp_lt_s", "a b", INTS, "Signed a < b.", result=I1)
CMP_LE_S = elementwise("cmp_le_s", "a b", INTS, "Signed a <= b.", result=I1)
CMP_GT_S = elementwise("cmp_gt_s", "a b", INTS, "Signed a > b.", result=I1)
CMP_GE_S = elementwise("cmp_ge_s", "a b", INTS, "Signed a >= b.", result=I1)
CMP_LT_U = elementwise("cmp_lt_u", "a b", INTS, "Unsigned a < b.", result=I1)
CMP_LE_U = elementwise("cmp_le_u", "a b", INTS, "Unsigned a <= b.", result=I1)
CMP_GT_U = elementwise("cmp_gt_u", "a b", INTS, "Unsigned a > b.", result=I1)
CMP_GE_U = elementwise("cmp_ge_u", "a b", INTS, "Unsigned a >= b.", result=I1)
CMP_EQ_F = elementwise("cmp_eq_f", "a b", FLOATS, "a == b; false when either is NaN.", result=I1)
CMP_NE_F = elementwise("cmp_ne_f", "a b", FLOATS, "a != b; true when either is NaN.", result=I1)
CMP_LT_F = elementwise("cmp_lt_f", "a b", FLOATS, "a < b; false when either is NaN.", result=I1)
CMP_LE_F = elementwise("cmp_le_f", "a b", FLOATS, "a <= b; false when either is NaN.", result=I1)
CMP_GT_F = elementwise("cmp_gt_f", "a b", FLOATS, "a > b; false when either is NaN.", result=I1)
CMP_GE_F = elementwise("cmp_ge_f", "a b", FLOATS, "a >= b; false when either is NaN.", result=I1)

SELECT = elementwise(
    "select", "condition a b", [((I1, t, t), t) for t in (*NUMBERS, *POINTERS)], "a where the condition holds, else b."
)
