"""What the levels compare beyond the contracts: arguments that share memory, bits where all is settled, lines."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.compiler import compile_module
from tilewright.difftest import RecordedChoices, argument, generate_kernel, launched
from tilewright.difftest.generator import GeneratedKernel, Parameter, arguments
from tilewright.difftest.kernels import (
    PRINTED,
    TARGETS,
    Disagreement,
    Judge,
    Walk,
    examine_launch,
    run_emulated,
    run_module,
    unlike,
)
from tilewright.difftest.launches import Launch, Results, results_of
from tilewright.interpreter import enclose

HEAD = "import tilewright\nimport tilewright.language as tl\n\n\n@tilewright.jit\n"


def kernel_of(body: str, parameters: tuple[Parameter, ...], **options: int) -> GeneratedKernel:
    """A kernel of these lines, one program."""
    names = ", ".join(parameter.name for parameter in parameters)
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return GeneratedKernel(
        f"{HEAD}def kernel({names}):\n{lines}\n", parameters, {}, (1, 1, 1), {"num_warps": 1} | options
    )


# Arguments that share memory


def shared() -> tuple[Parameter, ...]:
    codes = "3f800000*8"
    return (
        argument("x", "float32", codes, within="whole", start=2),
        argument("whole", "float32", f"0*2 {codes}"),
        argument("out", "float32", "0*8"),
    )


def test_arguments_share_memory_where_they_say_so() -> None:
    made = arguments(shared())
    assert list(made) == ["x", "whole", "out"]
    made["x"][0] = 5
    assert made["whole"][2] == 5 and made["whole"][:2].tolist() == [0, 0]
    assert not np.shares_memory(made["x"], made["out"])


def test_generated_kernels_have_arguments_that_overlap_by_whole_elements() -> None:
    starts: set[int] = set()
    for seed in range(60):
        kernel = generate_kernel(RecordedChoices(seed))
        by_name = {parameter.name: parameter for parameter in kernel.parameters}
        for parameter in kernel.parameters:
            if parameter.within:
                whole = by_name[parameter.within]
                assert whole.type == parameter.type and whole.codes[parameter.start :] == parameter.codes
                starts.add(parameter.start)
    assert starts == {0, 1, 16}


THROUGH_ANOTHER = """
i = tl.arange(0, 8)
v = tl.load(x + i)
tl.store(whole + 2 + (7 - i), v / 3.0)
tl.store(out + i, tl.load(x + i) * 3.0)
"""


def test_what_is_stored_through_one_argument_is_loaded_through_another_with_its_enclosure() -> None:
    with launched(kernel_of(THROUGH_ANOTHER, shared())) as launch:
        assert not examine_launch(launch, TARGETS[0]).level
        values = launch.values()
        found = enclose(launch.module, launch.buffers(values), launch.grid)
    assert found.keys() == {"x", "whole", "out"}
    assert (found["x"].width() == found["whole"].width()[2:]).all() and found["x"].width().max() > 0
    assert found["out"].width().min() > 0
    assert not found["x"].outside(values["x"]).any()


# Bits


def followed(launch: Launch) -> tuple[Walk, Results]:
    """The walk through a compilation, and what the emulator gives."""
    reference = run_module(launch, launch.module)
    walk = Walk(launch, Judge(launch, reference, None), reference)
    made = compile_module(launch.module, TARGETS[0], launch.num_warps, until="ptx", hook=walk)
    return walk, run_emulated(launch, made)


def changed(results: Results) -> Results:
    """With one bit of the first result the other way round."""
    out = {name: np.array(bits) for name, bits in results.items()}
    out["out"][0] ^= 1
    return out


SUMS = """
i = tl.arange(0, 256)
tl.store(out, tl.sum(tl.load(x + i), 0))
"""


def test_a_sum_must_be_that_of_the_recorded_order_bit_for_bit() -> None:
    """Its contract alone would let the neighbouring number through."""
    codes = " ".join(f"{np.float32(1 / (n + 3)).view(np.uint32):x}" for n in range(256))
    parameters = (argument("x", "float32", codes), argument("out", "float32", "0"))
    with launched(kernel_of(SUMS, parameters, num_warps=2)) as launch:
        walk, emulated = followed(launch)
        walk.check(emulated, "here")
        with pytest.raises(Disagreement, match="other bits than the IR in the end"):
            walk.check(changed(emulated), "here")


def test_what_a_function_gives_is_left_to_its_contract() -> None:
    body = "i = tl.arange(0, 8)\ntl.store(out + i, tl.exp(tl.load(x + i)))"
    parameters = (argument("x", "float32", "3f800000*8"), argument("out", "float32", "0*8"))
    with launched(kernel_of(body, parameters)) as launch:
        walk, emulated = followed(launch)
        assert not walk.is_settled
        walk.check(changed(emulated), "here")


def test_any_nan_stands_for_a_nan() -> None:
    body = "i = tl.arange(0, 4)\nv = tl.load(x + i)\ntl.store(out + i, v - v)"
    parameters = (argument("x", "float32", "7f800000*2 3f800000*2"), argument("out", "float32", "0*4"))
    with launched(kernel_of(body, parameters)) as launch:
        walk, emulated = followed(launch)
        walk.check(changed(emulated), "here")
        with pytest.raises(Disagreement):
            walk.check({name: bits ^ (name == "out") for name, bits in emulated.items()}, "here")


# Lines


def test_what_is_printed_is_compared_in_any_order() -> None:
    body = 'i = tl.arange(0, 4)\ntl.device_print("v", i * 2)\ntl.store(out + i, i)'
    with launched(kernel_of(body, (argument("out", "int32", "0*4"),))) as launch:
        assert not examine_launch(launch, TARGETS[1]).level
        want = run_module(launch, launch.module)
        assert bytes(want[PRINTED]).decode().splitlines()[-1] == "pid (0, 0, 0) idx (3) v: 6"
        got = want | {PRINTED: np.frombuffer(bytes(want[PRINTED]).replace(b"6", b"7"), np.uint8)}
        assert unlike(launch, got, want) == ["printed: pid (0, 0, 0) idx (3) v: 7"]
        assert unlike(launch, want | {PRINTED: want[PRINTED][:0]}, want) == ["printed: less than expected"]
        assert PRINTED not in results_of(launch.values())
