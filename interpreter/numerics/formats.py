"""The floating-point formats of the language, as data.

A format is a sign bit, an exponent field and a mantissa field. The value of a code with exponent field `E > 0`
and mantissa field `M` is `(1 + M / 2**mantissa_bits) * 2**(E - bias)`; with `E == 0` it is the subnormal
`M / 2**mantissa_bits * 2**(1 - bias)`. The formats differ in which codes mean infinity and NaN:

=============  ====================================  =============================  ==================
format         infinity                              NaN                            canonical NaN
=============  ====================================  =============================  ==================
f16 bf16       all-ones exponent, zero mantissa      all-ones exponent, mantissa    0x7fff
f32            the same                              the same                       0x7fffffff
f64            the same                              the same                       0x7ff8000000000000
f8e5m2         the same                              the same                       0x7f
f8e4m3fn       none                                  0x7f and 0xff                  0x7f
f8e5m2fnuz     none, and no negative zero            0x80                           0x80
f8e4m3fnuz     none, and no negative zero            0x80                           0x80
f8e4m3b15      none                                  none                           none
=============  ====================================  =============================  ==================

The canonical NaNs of f16, bf16, f32 and fp8 are the ones that the PTX ISA states for `cvt` and arithmetic results;
f64 takes the quiet NaN with an empty payload.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """One floating-point format: its fields, its special codes, and how arrays of it are stored.

    `max_code` is the code of the largest finite value (sign bit clear), `inf_code` that of +infinity (None where the
    format has none), `nan_code` the canonical NaN (None where it has none). `storage` is the NumPy dtype arrays of
    this format have, `carrier` the unsigned integer dtype of the same width, through which bits are read and
    written. `saturates`: a value too large becomes the largest finite one, infinity included, instead of infinity.
    """

    name: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    max_code: int
    inf_code: int | None
    nan_code: int | None
    has_negative_zero: bool
    saturates: bool
    storage: np.dtype
    carrier: np.dtype

    @property
    def has_inf(self) -> bool:
        """Whether the format can hold infinity."""
        return self.inf_code is not None

    @property
    def has_nan(self) -> bool:
        """Whether the format can hold NaN."""
        return self.nan_code is not None

    @property
    def precision(self) -> int:
        """Significant bits of a normal number, the hidden one included."""
        return self.mantissa_bits + 1

    @property
    def sign_bit(self) -> int:
        """The sign bit, as an integer mask."""
        return 1 << (self.bits - 1)

    @property
    def max_finite(self) -> float:
        """The largest finite value."""
        return self.value(self.max_code)

    @property
    def min_normal(self) -> float:
        """The smallest positive normal value."""
        return 2.0 ** (1 - self.bias)

    @property
    def min_subnormal(self) -> float:
        """The smallest positive value."""
        return 2.0 ** (1 - self.bias - self.mantissa_bits)

    def is_nan_code(self, code: int) -> bool:
        """Whether an integer code means NaN."""
        if self.nan_code is None:
            return False
        if self.inf_code is not None:
            return code & (self.sign_bit - 1) > self.inf_code
        if not self.has_negative_zero:
            return code == self.nan_code
        return code & (self.sign_bit - 1) == self.nan_code

    def value(self, code: int) -> float:
        """The value of one integer code as a Python float (exact: every format fits in f64)."""
        if self.is_nan_code(code):
            return float("nan")
        sign = -1.0 if code & self.sign_bit else 1.0
        magnitude = code & (self.sign_bit - 1)
        if magnitude == self.inf_code:
            return sign * float("inf")
        field, mantissa = divmod(magnitude, 1 << self.mantissa_bits)
        if field == 0:
            return sign * mantissa * self.min_subnormal
        return sign * (mantissa + (1 << self.mantissa_bits)) * 2.0 ** (field - self.bias - self.mantissa_bits)


def _ieee(name: str, exponent_bits: int, mantissa_bits: int, nan_code: int, storage: type) -> FloatFormat:
    """An interchange format in the manner of IEEE 754: the all-ones exponent holds infinity and NaN."""
    bits = 1 + exponent_bits + mantissa_bits
    inf_code = ((1 << exponent_bits) - 1) << mantissa_bits
    return FloatFormat(
        name, bits, exponent_bits, mantissa_bits, (1 << (exponent_bits - 1)) - 1,
        max_code=inf_code - 1, inf_code=inf_code, nan_code=nan_code, has_negative_zero=True, saturates=bits == 8,
        storage=np.dtype(storage), carrier=np.dtype(f"u{bits // 8}"),
    )  # fmt: skip


def _fp8(name: str, exponent_bits: int, bias: int, max_code: int, nan_code: int | None, storage: type) -> FloatFormat:
    """An 8-bit format without infinity; those whose NaN is 0x80 have no negative zero."""
    return FloatFormat(
        name, 8, exponent_bits, 7 - exponent_bits, bias,
        max_code=max_code, inf_code=None, nan_code=nan_code, has_negative_zero=nan_code != 0x80, saturates=True,
        storage=np.dtype(storage), carrier=np.dtype(np.uint8),
    )  # fmt: skip


_ROWS = (
    _ieee("f16", 5, 10, 0x7FFF, np.float16),
    _ieee("bf16", 8, 7, 0x7FFF, ml_dtypes.bfloat16),
    _ieee("f32", 8, 23, 0x7FFF_FFFF, np.float32),
    _ieee("f64", 11, 52, 0x7FF8_0000_0000_0000, np.float64),
    _ieee("f8e5m2", 5, 2, 0x7F, ml_dtypes.float8_e5m2),
    _fp8("f8e4m3fn", 4, 7, 0x7E, 0x7F, ml_dtypes.float8_e4m3fn),
    _fp8("f8e5m2fnuz", 5, 16, 0x7F, 0x80, ml_dtypes.float8_e5m2fnuz),
    _fp8("f8e4m3fnuz", 4, 8, 0x7F, 0x80, ml_dtypes.float8_e4m3fnuz),
    _fp8("f8e4m3b15", 4, 15, 0x7F, None, np.uint8),
)

FORMATS: dict[str, FloatFormat] = {row.name: row for row in _ROWS}
"""Every floating-point format of the language by its name."""
