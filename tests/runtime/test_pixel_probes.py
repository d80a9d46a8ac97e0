"""The probes of columns of pixels and of interleaved arrays: what they tell of a machine that has other rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest

from tilewright.interpreter import MemoryAccessError
from tilewright.interpreter.ptx.hopper import boxes
from tools.probes import machines, map_cases, tensor_copies
from tools.probes.copy_cases import COPIES
from tools.probes.machines import Emulator
from tools.probes.pixel_cases import PIXEL_COPIES
from tools.probes.traces import trace

ODD = "emulator"
"""The name under which the probe gets a machine with other rules."""


class Odd(Emulator):
    """An emulator whose columns go through the box of pixels without regard to the offsets."""

    def run(self, ptx: str, blocks: int, threads: int, arguments: Sequence[machines.Argument]) -> None:
        plain: Callable[..., Any] = boxes.pixels_at

        def shifted(m: Any, start: Sequence[int], offsets: Sequence[int]) -> Any:
            return plain(m, [n + by for n, by in zip_longest(start, offsets, fillvalue=0)], ())

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(boxes, "pixels_at", shifted)
            super().run(ptx, blocks, threads, arguments)


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run of the probe on some of the kinds on such a machine."""
    kept = machines.kept_machine
    monkeypatch.setattr(tensor_copies, "kept_machine", lambda name: Odd("sm_90a") if name == ODD else kept(name))
    monkeypatch.setattr(tensor_copies, "maps_compared", lambda device: [])
    return lambda rows: tensor_copies.main(["--device", ODD, "--jobs", "1", "--rows", rows])


def test_copies_agree(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_copies, "maps_compared", lambda device: [])
    rows = "im2col: (channels|offsets|reductions|stores|prefetches|.*mode)|interleaved.*(outside|swizzles|columns)"
    assert tensor_copies.main(["--device", "emulator:sm_90a", "--jobs", "1", "--rows", rows]) == 0
    kinds = {copy.kind for copy in COPIES if re.search(rows, copy.kind)}
    assert capsys.readouterr().out.count(" equal") == len(kinds) > 15


def test_where_pieces_came_from_is_told(odd: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert odd("im2col: element strides") == 12
    out = capsys.readouterr().out
    assert "at (0, -1, -1, 0, 1, 1): @0 0+64x3 @48 zerosx1 @64 256+64x3 " in out
    assert "emulator: @0 0+64x4 @64 224+64x4 " in out


def test_the_bytes_of_loads_of_other_lengths_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that expects 96 bytes more than come, of which the probe thinks that they are as many as no load has."""
    number = next(n for n, copy in enumerate(COPIES) if copy.kind == "im2col: offsets")
    text = tensor_copies.kernel_text(COPIES[number], "sm_90a").replace("_, [%b], %nb;", "_, [%b], 480;")
    text = text.replace("5000", "2000").replace("try_wait.parity", "test_wait.parity").replace("0, 1000;", "0;")
    monkeypatch.setattr(tensor_copies, "kernel_text", lambda copy, target: text)
    monkeypatch.setattr(tensor_copies, "_MORE", 480)
    found = tensor_copies.compared(("emulator:sm_90a", number))
    assert found.short == 1 and found.example == "384 bytes come, not 384; "


def test_what_the_emulator_alone_refuses_is_told_with_what_the_machine_does(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(Emulator):
        def run(self, ptx: str, blocks: int, threads: int, arguments: Sequence[machines.Argument]) -> None:
            raise MemoryAccessError("no such copy")

    number = next(n for n, copy in enumerate(COPIES) if copy.kind == "im2col: offsets")
    monkeypatch.setattr(tensor_copies, "_emulator", lambda: Refusing("sm_90a"))
    found = tensor_copies.compared(("emulator:sm_90a", number))
    assert found.differ and found.example.startswith("emulator: no such copy\n        (0, 0, 0, 0, 255, 0): @0 ")


def test_pieces() -> None:
    copy = next(copy for copy in COPIES if copy.numbered and copy.action == "load")
    before = copy.octets(4096, 7)
    left, source = before.copy(), copy.octets(8192, 8)
    assert trace(copy, left, before) == ""
    left[1024:1040], left[1040:1072], left[1072:1104] = source[64:80], source[96:128], 0
    left[1104:1120] = np.frombuffer(b"\xf7\x7f" * 8, np.uint8)
    left[1136:1152] = np.arange(16)
    assert trace(copy, left, before) == (
        "@0 64+32x2 @32 112x1 @48 zerosx2 @80 nansx1 @112 000102030405060708090a0b0c0d0e0fx1"
    )
    left[1024:2048] = source[::-1][:1024]
    assert trace(copy, left, before).endswith(" and 24 more")


def test_cases_are_as_they_say() -> None:
    assert len(map_cases.IM2COL_MAPS) > 80
    assert {len(copy.shape) for copy in PIXEL_COPIES if copy.corners} == {3, 4, 5}
    for copy in PIXEL_COPIES:
        offsets = len(copy.corners) // 2 if "load" in copy.action or copy.action == "prefetch" else 0
        offsets += 2 * (copy.action == "im2col load") - offsets * copy.action.startswith("tile")
        assert {len(at) - len(copy.shape) for at in copy.ats} == {offsets}, copy.label
        assert copy.start + copy.copied <= tensor_copies.SIZE, copy.label
