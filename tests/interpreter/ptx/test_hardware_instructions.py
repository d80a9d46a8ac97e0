"""Single instructions as an H200 executes them: what it gave, replayed on the emulator, and bounds held against it."""

import pytest

from tests.interpreter.ptx.hardware import block_replayed, excesses, frozen, replayed, today, unasked
from tools.probes import questions
from tools.probes.instruction_rows import cases
from tools.probes.machines import Emulator
from tools.probes.sweeps import BLOCKS, SWEEPS

PARTS = 8
"""Instructions on drawn operands are replayed in so many parts, one a day."""
SWEPT = {case.name for case in cases() if case.swept}


@pytest.mark.parametrize("kind", ["cvt", ""])
def test_all_inputs_of_16_bits_give_what_hardware_gives(kind: str) -> None:
    want = frozen("instructions")["digests"]
    chosen = [name for name in want if name in SWEPT and name.startswith("cvt") == bool(kind)]
    assert len(chosen) > 10 and replayed(want, chosen) == []


def drawn(part: int) -> list[str]:
    return [name for name in frozen("instructions")["digests"] if name not in SWEPT][part::PARTS]


def test_drawn_operands_give_what_hardware_gives() -> None:
    want, part = frozen("instructions")["digests"], today(PARTS)
    assert replayed(want, drawn(part)) == [], f"part {part} of {PARTS}"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_drawn_operands_give_what_hardware_gives(part: int) -> None:
    assert replayed(frozen("instructions")["digests"], drawn(part)) == []


def test_every_instruction_was_frozen() -> None:
    """What the table has now was there when the GPU was asked, or its assembler refused it."""
    record, names = frozen("instructions"), [case.name for case in cases()]
    answered = {*record["digests"], *record["approximate"], *record["refused"]}
    assert [name for name in names if name not in answered] == unasked("instructions", names)


def test_open_questions_are_answered_as_hardware_answers_them() -> None:
    assert questions.answers(Emulator("sm_90a")) == frozen("answers")


def test_the_emulator_knows_how_an_approximate_instruction_may_err() -> None:
    record = frozen("instructions")["approximate"]
    assert len(record) > 10 and [text for name, own in record.items() for text in excesses(name, own)] == []


@pytest.mark.parametrize("opcode", [opcode for sweep in SWEEPS if not sweep.exact for opcode in sweep.opcodes])
def test_bounds_cover_all_operands_of_f32(opcode: str) -> None:
    assert excesses(opcode, frozen("sweeps")[opcode]) == []


@pytest.mark.parametrize("opcode", [opcode for sweep in SWEEPS for opcode in sweep.opcodes])
def test_a_block_of_each_exact_sweep_gives_what_hardware_gives(opcode: str, request: pytest.FixtureRequest) -> None:
    """All 2**32 operands, 2**24 of them a day; `--block K` chooses which."""
    record, exact = frozen("sweeps")[opcode], ".rn." in opcode
    assert "blocks" in record or not exact, f"{opcode} is not exact: {record['histogram']}, {record['example']}"
    if "blocks" in record:
        block = request.config.getoption("--block")
        assert block_replayed(opcode, record, today(BLOCKS) if block is None else block) == ""
