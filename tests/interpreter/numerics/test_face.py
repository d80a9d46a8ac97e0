"""The face of the package, and promises that hold for every function on it."""

import numpy as np

from tilewright.interpreter import numerics


def test_the_face_is_sorted_and_complete() -> None:
    assert numerics.__all__ == sorted(numerics.__all__)
    public = {name for name, value in vars(numerics).items() if not name.startswith("_") and callable(value)}
    assert public | {"FORMATS"} == set(numerics.__all__)
    assert all((getattr(numerics, name).__doc__ or "").strip() for name in numerics.__all__)


def test_storage_types() -> None:
    import_names = {name: row.storage.name for name, row in numerics.FORMATS.items()}
    assert import_names == {
        "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8e5m2": "float8_e5m2",
        "f8e4m3fn": "float8_e4m3fn", "f8e5m2fnuz": "float8_e5m2fnuz", "f8e4m3fnuz": "float8_e4m3fnuz",
        "f8e4m3b15": "uint8",
    }  # fmt: skip


def test_inputs_are_never_written() -> None:
    for name, row in numerics.FORMATS.items():
        x = np.full((4, 4), np.nan)
        x[0] = [1.0, -2.0, np.inf, 0.0]
        stored = numerics.round_to(x, name)
        stored.setflags(write=False)
        before = stored.tobytes()
        for operation in ("abs_", "ceil", "cos", "erf", "exp", "exp2", "floor", "log", "log2", "neg", "rsqrt", "sqrt"):
            getattr(numerics, operation)(stored, name)
        numerics.fma(stored, stored, stored, name)
        numerics.sum_along(stored, 1, name)
        numerics.dot(stored, stored, stored, name, name)
        numerics.cast(stored, name, "f32")
        numerics.float_to_int(stored, name, 32, True)
        assert stored.tobytes() == before and row.storage == stored.dtype
