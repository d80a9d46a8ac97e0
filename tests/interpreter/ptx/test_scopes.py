"""Scopes: strong accesses of threads that one of the two scopes leaves out are races, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.programs import module_text
from tilewright.interpreter import Buffer, Options, load_ptx, run_ptx
from tilewright.interpreter.ptx import RaceError

HEAD = """.reg .b32 %t, %i, %y, %n; .reg .b64 %a; .reg .pred %p, %q; .shared .align 4 .b8 s[4];
mov.u32 %t, %tid.x; mov.u32 %i, %ctaid.x; setp.eq.u32 %p, %i, 0; ld.param.u64 %a, [a];
"""
"""%p for the first block."""


def run(body: str, blocks: int = 4, cluster: int | None = None, seed: int = 0, chunk: int = 1 << 21) -> np.ndarray:
    """What a body leaves in `a`."""
    out = np.zeros(4, np.uint32)
    given = None if cluster is None else (cluster,)
    options = Options(seed=seed, chunk_bytes=chunk)
    module = load_ptx(module_text(HEAD + body, "a"))
    run_ptx(module, "k", (blocks,), (32,), [Buffer.of("a", out)], options, cluster=given)
    return out


@pytest.mark.parametrize("chunk", [1 << 21, 1])
def test_stores_within_their_scope(chunk: int) -> None:
    """All blocks store at one place, at once or one after the other."""
    body = "setp.ne.u32 %q, %t, 0; @%q bra END; st.relaxed.{}.global.u32 [%a], %i; END: ret;"
    assert run(body.format("gpu"), chunk=chunk)[0] < 4 and run(body.format("sys"), chunk=chunk)[0] < 4
    assert run(body.format("cta"), blocks=1)[0] == 0
    assert run(body.format("cluster"), cluster=4, chunk=chunk)[0] < 4
    for scope, cluster in (("cta", None), ("cta", 2), ("cluster", 2), ("cluster", None)):
        with pytest.raises(RaceError, match="which a scope keeps apart from the store"):
            run(body.format(scope), cluster=cluster, chunk=chunk)


@pytest.mark.parametrize("scope", ["cta", "cluster", "gpu"])
def test_atomics_are_indivisible_whatever_their_scope(scope: str) -> None:
    assert run(f"atom.relaxed.{scope}.global.add.u32 %y, [%a], 1;")[0] == 128
    body = f"@%p bra ONE; red.relaxed.{scope}.global.add.u32 [%a], 1; bra END; ONE: ld.relaxed.gpu.global.u32 %y, [%a];"
    if scope == "gpu":
        assert run(f"{body} END: ret;", 2)[0] == 32
        return
    with pytest.raises(RaceError, match="which a scope keeps apart from the"):
        run(f"{body} END: ret;", 2)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("one", "other", "races"),
    [
        ("st.relaxed.gpu.global.u32 [%a], 1;", "ld.relaxed.gpu.global.u32 %y, [%a];", False),
        ("st.relaxed.cta.global.u32 [%a], 1;", "ld.relaxed.gpu.global.u32 %y, [%a];", True),
        ("st.relaxed.gpu.global.u32 [%a], 1;", "ld.relaxed.cta.global.u32 %y, [%a];", True),
        ("st.release.cta.global.u32 [%a], 1;", "ld.acquire.cta.global.u32 %y, [%a];", True),
        ("ld.relaxed.cta.global.u32 %y, [%a];", "ld.relaxed.cta.global.u32 %y, [%a];", False),
        ("st.volatile.global.u32 [%a], 1;", "ld.volatile.global.u32 %y, [%a];", False),
        ("st.relaxed.cta.global.u32 [%a], 1;", "ld.relaxed.cta.global.u32 %y, [%a+4];", False),
    ],
)
def test_both_scopes_count(one: str, other: str, races: bool, seed: int) -> None:
    body = f"setp.ne.u32 %q, %t, 0; @%q bra END; @%p bra ONE; {other} bra END; ONE: {one} END: ret;"
    if not races:
        run(body, 2, seed=seed)
        return
    with pytest.raises(RaceError, match="which a scope keeps apart from the"):
        run(body, 2, seed=seed)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("one", "other", "races"),
    [
        ("st.release.gpu.global.u64 [%a], %z;", "ld.acquire.gpu.global.u32 %y, [%a];", True),
        ("st.release.gpu.global.u64 [%a], %z;", "ld.acquire.gpu.global.u32 %y, [%a+4];", True),
        ("st.release.gpu.global.u32 [%a], 1;", "ld.acquire.gpu.global.u64 %z, [%a];", True),
        ("st.relaxed.gpu.global.u8 [%a+1], 1;", "ld.relaxed.gpu.global.u16 %y, [%a];", True),
        ("red.relaxed.gpu.global.add.u32 [%a], 1;", "atom.relaxed.gpu.global.add.u64 %z, [%a], %z;", True),
        ("red.relaxed.gpu.global.add.u32 [%a+8], 1;", "atom.relaxed.gpu.global.add.u64 %z, [%a], %z;", False),
        ("st.relaxed.gpu.global.v2.u32 [%a], {1, 1};", "ld.relaxed.gpu.global.u32 %y, [%a+4];", False),
        ("st.relaxed.gpu.global.v2.u32 [%a], {1, 1};", "ld.relaxed.gpu.global.u64 %z, [%a];", True),
        ("red.relaxed.gpu.global.add.noftz.f16x2 [%a], %y;", "ld.relaxed.gpu.global.b16 %h, [%a+2];", False),
        ("st.relaxed.gpu.global.u64 [%a], %z;", "ld.volatile.global.v2.u32 {%y, %n}, [%a];", False),
        ("ld.relaxed.gpu.global.u64 %z, [%a];", "ld.relaxed.gpu.global.u32 %y, [%a];", False),
    ],
)
def test_both_widths_count(one: str, other: str, races: bool, seed: int) -> None:
    """The parts of vectors and pairs count by themselves."""
    start = ".reg .b64 %z; .reg .b16 %h; mov.u64 %z, 1; mov.u32 %y, 0; setp.ne.u32 %q, %t, 0; @%q bra END;"
    body = f"{start} @%p bra ONE; {other} bra END; ONE: {one} END: ret;".replace("u16 %y", "u16 %h")
    if not races:
        run(body, 2, seed=seed)
        return
    with pytest.raises(RaceError, match="which is not of the very same bytes, and so not strong beside the"):
        run(body, 2, seed=seed)


@pytest.mark.parametrize("space, at", [("global", "[%a"), ("shared", "[%m")])
@pytest.mark.parametrize("value, races", [(0, False), (1, True)])
def test_stores_of_other_widths_may_leave_what_is_there(space: str, at: str, value: int, races: bool) -> None:
    body = f""".reg .b64 %z; .reg .b32 %m; .shared .align 8 .b8 m[8]; mov.u32 %m, m; mov.u64 %z, 0;
    setp.eq.u32 %q, %t, 0; @%q st.shared.u64 [%m], %z; bar.sync 0;
    @%q st.relaxed.gpu.{space}.u64 {at}], %z; @!%q st.relaxed.gpu.{space}.u32 {at}+4], {value}; ret;"""
    if not races:
        run(body, 1)
        return
    with pytest.raises(RaceError, match="not of the very same bytes"):
        run(body, 1)


def test_other_widths_are_no_race_where_a_message_orders_them() -> None:
    body = """.reg .b64 %z; setp.ne.u32 %q, %t, 0; @%q bra END; @%p bra ONE;
    W: ld.acquire.gpu.global.u32 %y, [%a+8]; setp.eq.u32 %q, %y, 0; @%q bra W;
    ld.relaxed.gpu.global.u64 %z, [%a]; bra END;
    ONE: st.relaxed.gpu.global.u32 [%a], 2; st.release.gpu.global.u32 [%a+8], 1; END: ret;"""
    run(body, 2)
    with pytest.raises(RaceError, match="not of the very same bytes"):
        run(body.replace("release", "relaxed"), 2)


def test_blocks_have_shared_memory_of_their_own() -> None:
    body = "mov.u32 %n, s; st.shared.u32 [%n], 0; bar.sync 0; atom.relaxed.cta.shared.add.u32 %y, [%n], 1; bar.sync 0;"
    assert run(f"{body} ld.shared.u32 %y, [%n]; atom.global.add.u32 %n, [%a], %y;")[0] == 4 * 32 * 32


def test_what_a_wide_message_orders_is_no_race() -> None:
    """One block stores within its scope, and tells the next one, which goes on in its own."""
    body = """setp.ne.u32 %q, %t, 0; @%q bra END; @%p bra ONE;
    W: ld.acquire.gpu.global.u32 %y, [%a+4]; setp.eq.u32 %q, %y, 0; @%q bra W;
    ld.relaxed.cta.global.u32 %y, [%a]; st.relaxed.cta.global.u32 [%a+8], %y; bra END;
    ONE: st.relaxed.cta.global.u32 [%a], 2; st.release.gpu.global.u32 [%a+4], 1; END: ret;"""
    assert run(body, 2)[2] == 2
    with pytest.raises(RaceError, match="which a scope keeps apart from"):
        run(body.replace("release", "relaxed"), 2)
